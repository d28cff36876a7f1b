"""Builds the webhook configurations that fit the settings. Pure.

Each object may have the member COMMENT, whose text `yaml_writer.render` writes above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from queuegate_server.admission.queues.listed_kinds import ListedKinds, rule
from queuegate_server.admission.queues.places import build_places, enforced_mode
from queuegate_server.admission.registration import conditions
from queuegate_server.admission.registration.annotation_webhooks import (
    API_VERSION,
    QUEUES_SUFFIX,
    TIMEOUT_SECONDS,
    annotation_configurations,
    emergency_command,
)
from queuegate_server.admission.registration.yaml_writer import COMMENT
from queuegate_server.settings.admission import Admission, QueueChecks
from queuegate_server.settings.queue_schedulers import Mode

QUEUES_PATH: Final = "/queues"
EXCLUDED: Final = ("kube-system",)
"""Namespaces that the cluster needs to start."""
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Service:
    """How the API server reaches the webhook."""

    namespace: str
    name: str
    ca_bundle: str = ""
    """The CA for its certificate, as PEM in base64; empty if another tool adds it."""
    excluded: Sequence[str] = EXCLUDED
    """Namespaces for which the webhook is not called, in addition to its own."""


def webhook_configurations(
    admission: Admission, service: Service, name: str
) -> list[dict[str, Any]]:
    """Return the configurations that fit the settings.

    Args:
        admission: The `admission` section of the settings.
        service: How the API server reaches the webhook.
        name: The name of the configurations; the configuration for /queues gets the suffix
            `-queues`.
    """
    found: list[dict[str, Any]] = []
    # Their failure policy is Fail in every mode, so listing YuniKorn among the schedulers does not
    # suffice to add them.
    if admission.queues is None or admission.user_info is not None or admission.yunikorn.enabled:
        found += annotation_configurations(
            name, lambda path: _client_config(service, path), _selector(service), service.namespace
        )
    return [*found, *queue_configurations(admission, service, name)]


def queue_configurations(admission: Admission, service: Service, name: str) -> list[dict[str, Any]]:
    """Return the configuration for /queues; none if nothing is checked.

    The arguments are those of `webhook_configurations`.
    """
    queues = admission.queues
    return [] if queues is None else _queue_configurations(queues, service, name)


def _queue_configurations(
    settings: QueueChecks, service: Service, name: str
) -> list[dict[str, Any]]:
    places = build_places(settings)
    mode = enforced_mode(settings, places)
    if mode is Mode.OFF:
        return []
    kinds = ListedKinds(places)
    who = conditions.requester(settings)
    listed = [*who, conditions.listed_names_change(settings, places, kinds)]
    if kinds.own:
        listed.insert(0, {"name": "a-listed-kind", "expression": conditions.is_listed(kinds)})
    webhooks = [
        {
            COMMENT: _about_listed(settings),
            **_webhook("listed.queues.queuegate.io", mode, service),
            "matchConditions": listed,
            "rules": kinds.rules(),
        }
    ]
    other = {"name": "not-a-listed-kind", "expression": f"!({conditions.is_listed(kinds)})"}
    change = conditions.other_names_change(places)
    if change:
        webhooks.append(
            {
                COMMENT: "All other kinds, if a label or annotation of the object itself names a "
                "new queue.",
                **_webhook("others.queues.queuegate.io", mode, service),
                "matchConditions": [other, conditions.NOT_A_SECRET, *who, *change],
                "rules": [rule(["CREATE", "UPDATE"], _ALL, [_ALL, f"{_ALL}/status"])],
            }
        )
    if settings.kinds == "all":
        webhooks.append(
            {
                COMMENT: "All other custom resources, whose templates a condition cannot search. "
                "They are accepted\nwhile the webhook does not answer, because the cluster itself "
                "may need them.",
                **_webhook("unlisted.queues.queuegate.io", Mode.WARN, service),
                "matchConditions": [other, *who, *conditions.unlisted_content_changes(places)],
                "rules": [rule(["CREATE", "UPDATE"], _ALL, [_ALL])],
            }
        )
    return [
        {
            COMMENT: _about_mode(mode, name),
            "apiVersion": API_VERSION,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"{name}{QUEUES_SUFFIX}"},
            "webhooks": webhooks,
        }
    ]


def _webhook(name: str, mode: Mode, service: Service) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail" if mode is Mode.DENY else "Ignore",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "matchPolicy": "Equivalent",
        "clientConfig": _client_config(service, QUEUES_PATH),
        "namespaceSelector": _selector(service),
    }


def _client_config(service: Service, path: str) -> dict[str, Any]:
    address = {"name": service.name, "namespace": service.namespace, "path": path, "port": 443}
    bundle = {"caBundle": service.ca_bundle} if service.ca_bundle else {}
    return {"service": address, **bundle}


def _selector(service: Service) -> Mapping[str, Any]:
    values = list(dict.fromkeys((*service.excluded, service.namespace)))
    name = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": values}
    return {"matchExpressions": [name]}


def _about_mode(mode: Mode, name: str) -> str:
    outage = (
        "Failure policy Fail: while the webhook does not answer, objects that name a queue are "
        "refused."
        if mode is Mode.DENY
        else "Failure policy Ignore, because no mode is deny: while the webhook does not answer, "
        "objects are accepted without a warning."
    )
    return (
        "These webhooks check the queues that objects name. The API server calls only one of them "
        f"for each request.\n{outage}\n{emergency_command(name)}"
    )


def _about_listed(settings: QueueChecks) -> str:
    text = (
        "Kinds that contain templates, or fields that name a queue. Custom resources are reviewed "
        "whenever\ntheir specification changes, because a condition cannot search their templates."
    )
    if settings.unqueued == "allow":
        return text
    return (
        f"{text}\n"
        f"With `unqueued: {settings.unqueued}`, creating any of these kinds, such as a pod, needs "
        "an answer\nfrom the webhook, whether the object names a queue or not."
    )
