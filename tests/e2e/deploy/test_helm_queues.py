"""The Helm chart registers the checks of queues as `queuegate-server admission manifest` does."""

import re
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.admission.queues.registration import Service, webhook_configurations
from queuegate_server.admission.queues.yaml_writer import without_comments
from queuegate_server.settings.admission import Admission
from tests.e2e.deploy.test_helm import CERT_MANAGER, POLICY, Helm
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    VERSIONS,
    check_names,
    check_schemas,
    of_kind,
    own_containers,
    started,
)

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
SERVICE = Service("yunikorn", "queuegate-admission")
POLICY_SETTINGS = {"defaults": "/etc/yunikorn/defaults", "configs": "/etc/yunikorn/configs"}
QUEUES: dict[str, dict[str, Any]] = {
    "one": {"schedulers": {"kueue": {}}},
    "YuniKorn": {"mode": "deny", "schedulers": {"yunikorn": {}}, "groups": "kubernetes"},
    "all": {
        "mode": "deny",
        "schedulers": {
            "yunikorn": {},
            "kueue": {"localqueues": "root.{namespace}.{queue}"},
            "volcano": {"mode": "warn"},
            "kai": {"label": "example.com/kai"},
            "koordinator": {},
            "slurm-bridge": {},
            "places": [
                {"label": "example.com/queue"},
                {"kind": "example.com/Run", "field": "data.queue"},
                {"kind": "Pod", "field": "spec.schedulerName"},
                {"label": "example.com/unused", "mode": "off"},
            ],
        },
        "controllers": ["^system:serviceaccount:kube-system:", '^a\\.b"<c>$'],
        "exempt": ["^system:admin$"],
        "unqueued": "root.default",
    },
    "no controllers": {"schedulers": {"kai": {}, "volcano": {"mode": "off"}}, "controllers": []},
    "fields alone": {"schedulers": {"places": [{"kind": "a.b/Run", "field": "spec.queue"}]}},
    "strictest": {"mode": "warn", "schedulers": {"kueue": {"mode": "deny"}, "kai": {}}},
    "off": {"mode": "off", "schedulers": {"kueue": {}}},
    "all off": {"mode": "deny", "schedulers": {"kueue": {"mode": "off"}}},
}


@pytest.fixture
def chart(helm: Path, tmp_path: Path) -> Helm:
    folder = tmp_path / "helm"
    folder.mkdir()
    return Helm(helm, folder)


def values(queues: dict[str, Any]) -> dict[str, Any]:
    settings = {"policy": POLICY_SETTINGS, "admission": {"queues": queues}}
    return {"server": {"enabled": False}, "webhook": {**CERT_MANAGER, "settings": settings}}


def comparable(webhook: dict[str, Any]) -> dict[str, Any]:
    """Return a webhook whose expressions contain no whitespace."""
    conditions = [
        {**each, "expression": re.sub(r"\s+", "", each["expression"])}
        for each in webhook.get("matchConditions", ())
    ]
    return {**webhook, "matchConditions": conditions}


@pytest.mark.parametrize("name", QUEUES)
def test_the_chart_and_the_command_make_the_same(chart: Helm, name: str) -> None:
    manifests = chart.template(values(QUEUES[name]))
    for version in VERSIONS:
        check_schemas(manifests, version)
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    made = {
        (each["kind"], each["metadata"]["name"]): list(map(comparable, each["webhooks"]))
        for kind in kinds
        for each in of_kind(manifests, kind)
    }
    settings = Admission.model_validate({"queues": QUEUES[name]})
    expected = {
        (each["kind"], each["metadata"]["name"]): list(map(comparable, each["webhooks"]))
        for each in without_comments(
            webhook_configurations(settings, SERVICE, "queuegate-admission")
        )
    }
    assert made == expected


def test_the_webhook_starts_with_its_settings(chart: Helm, tmp_path: Path) -> None:
    manifests = chart.template(values(QUEUES["YuniKorn"]))
    ((pod, container),) = own_containers(manifests)
    check_names(manifests, pod, container)
    files: dict[str, dict[str, str]] = {
        "yunikorn-defaults": {},
        "yunikorn-configs": {"queues.yaml": POLICY},
    }
    folder = tmp_path / "mounts"
    folder.mkdir()
    with started(manifests, pod, container, folder, files):
        pass


def test_wrong_settings_are_refused(chart: Helm) -> None:
    wrong = values({"mode": "reject", "schedulers": {"kueue": {}}})
    done = chart.run("template", "queuegate", "deploy/helm/queuegate", values=wrong)
    assert done.returncode != 0
    assert "webhook/settings/admission/queues/mode" in done.stderr
