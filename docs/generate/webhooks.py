"""The webhook configurations in deploy/, as `queuegate-server admission manifest` prints them."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final

import yaml

from queuegate_server.admission.queues.kinds import RESOURCES
from queuegate_server.admission.queues.listed_kinds import (
    POD_RESOURCES,
    REVISIONS,
    TEMPLATES,
    ListedKinds,
)
from queuegate_server.admission.queues.places import PROJECT, build_places
from queuegate_server.admission.registration import conditions
from queuegate_server.admission.registration.configurations import (
    Service,
    queue_configurations,
    webhook_configurations,
)
from queuegate_server.admission.registration.yaml_writer import render
from queuegate_server.settings.admission import Admission, QueueChecks
from queuegate_server.settings.queue_schedulers import FLAT, KUEUE, YUNIKORN, KaiScheduler

WITHOUT_QUEUES: Final = Path("deploy/admission/base/webhooks.yaml")
QUEUES: Final = Path("deploy/admission/queues/webhooks.yaml")
SETTINGS: Final = Path("deploy/admission/queues/settings.yaml")
"""The ConfigMap with the settings from which QUEUES is generated."""
CHART: Final = Path("deploy/helm/queuegate/queues.yaml")
BASES: Final = Path("deploy/queues")
"""Contains a folder for each scheduler, with settings and the matching configuration."""
_SERVICE: Final = Service("yunikorn", "queuegate-admission")
_SERVICE_OF_BASES: Final = Service("queuegate", "queuegate-admission")
_COMMENT: Final = "# `make docs-generated` writes this file.\n"


def generate_without_queues() -> str:
    """Return the configurations of a webhook that checks no queues."""
    documents = webhook_configurations(Admission(), _SERVICE, _SERVICE.name)
    return f"{_COMMENT}{render(documents)}"


def generate_queues() -> str:
    """Return the configuration that checks queues as in SETTINGS."""
    config_map = yaml.safe_load(SETTINGS.read_text(encoding="utf-8"))
    settings = yaml.safe_load(config_map["data"]["queuegate.yaml"])["admission"]
    documents = queue_configurations(Admission.model_validate(settings), _SERVICE, _SERVICE.name)
    return f"{_COMMENT}{render(documents)}"


def generate_bases() -> dict[Path, str]:
    """Return the configurations for the settings in each folder of BASES, by their files."""
    found = {}
    for file in sorted(BASES.glob("*/queuegate.yaml")):
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))["admission"]
        admission = Admission.model_validate(settings)
        documents = webhook_configurations(admission, _SERVICE_OF_BASES, _SERVICE_OF_BASES.name)
        found[file.with_name("webhooks.yaml")] = f"{_COMMENT}{render(documents)}"
    return found


def generate_chart() -> str:
    """Return what the chart needs to make a configuration for /queues from its values."""
    schedulers = {}
    own_keys = {KaiScheduler().label, KaiScheduler().node_pool_label, PROJECT}
    for name in (YUNIKORN, KUEUE, *FLAT):
        places = build_places(QueueChecks.model_validate({"schedulers": {name: {}}}))
        keys: dict[bool, set[str]] = {True: set(), False: set()}
        for place in (each for by_key in places.keys.values() for each in chain(*by_key.values())):
            is_everywhere = place.kinds is None and place.groups is None
            keys[is_everywhere] |= {place.key, place.joined_label} - {""}
        keys[True] -= own_keys  # the values set them
        fields = [each for found in places.fields.values() for each in found]
        schedulers[name] = {
            "keys": sorted(keys[True]),
            "certainKinds": sorted(keys[False]),
            "resources": sorted({f"{each.kind[0]}/{RESOURCES[each.kind]}" for each in fields}),
            "statusChanges": [
                conditions.status_changes(resource, path)
                for resource, path in ListedKinds(places).statuses
            ],
        }
    data = {
        "kaiLabel": KaiScheduler().label,
        "kaiNodePoolLabel": KaiScheduler().node_pool_label,
        "kaiProjectLabel": PROJECT,
        "controllers": list(QueueChecks.model_fields["controllers"].default),
        "pods": _joined(POD_RESOURCES),
        "revisions": "/".join(REVISIONS),
        "templates": _joined(TEMPLATES),
        "resources": {"/".join(kind): name for kind, name in sorted(RESOURCES.items())},
        "schedulers": schedulers,
        # The chart replaces the words in capitals.
        "userMatches": conditions.user_matches("PATTERN"),
        "isResource": conditions.is_resource(["RESOURCES"]),
        "isKind": conditions.is_kind(["KINDS"]),
        "objectChanges": conditions.keys_change(["KEYS"], conditions.METADATA),
        "templateChanges": conditions.templates_change(["KEYS"]),
        "ownersChange": conditions.OWNERS_CHANGE,
        "ownersOfPodsChange": conditions.owners_of_pods_change(["KEYS"]),
        "contentChanges": conditions.CONTENT_CHANGES,
        "mayHoldPods": conditions.MAY_HOLD_PODS,
        "notASecret": conditions.NOT_A_SECRET,
        "revisionCreated": conditions.REVISION_CREATED,
        "unqueuedCreated": conditions.UNQUEUED_CREATED,
    }
    return f"{_COMMENT}{render([data])}"


def _joined(resources: Iterable[tuple[str, str]]) -> list[str]:
    return ["/".join(each) for each in resources]
