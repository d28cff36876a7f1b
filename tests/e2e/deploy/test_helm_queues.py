"""The chart and the kustomizations register what `queuegate-server admission manifest` prints."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from queuegate_server.cli.admission import admission
from tests.e2e.deploy.test_helm import CERT_MANAGER, Helm
from tests.e2e.deploy.test_helm import comparable as same_objects
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    POLICY,
    VERSIONS,
    Manifest,
    certificate_containers,
    check_names,
    check_schemas,
    kustomized,
    loaded,
    of_kind,
    own_containers,
    started,
)
from tests.support.rows import rows, table

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
POLICY_SETTINGS = {"defaults": "/etc/yunikorn/defaults", "configs": "/etc/yunikorn/configs"}
QUEUES: dict[str, dict[str, Any]] = table(__file__, "QUEUES")


@pytest.fixture
def chart(helm: Path, tmp_path: Path) -> Helm:
    folder = tmp_path / "helm"
    folder.mkdir()
    return Helm(helm, folder)


def settings_of(queues: dict[str, Any]) -> dict[str, Any]:
    return {"policy": POLICY_SETTINGS, "admission": {"queues": queues}}


ANNOTATION: dict[str, dict[str, Any]] = {
    "section": {"user_info": {"groups": "kubernetes"}},
    "empty section": {"user_info": {}},
    "section without a value": {"user_info": None},
    "duties": {"yunikorn": {"enabled": True}},
    "no duties": {"yunikorn": {"enabled": False}},
}


def values(settings: dict[str, Any]) -> dict[str, Any]:
    return {"server": {"enabled": False}, "webhook": {**CERT_MANAGER, "settings": settings}}


def printed(settings: dict[str, Any], folder: Path) -> list[Manifest]:
    """Return what `queuegate-server admission manifest` prints."""
    file = folder / "printed.yaml"
    file.write_text(json.dumps(settings))
    done = CliRunner().invoke(admission, ["manifest", "--config", str(file)])
    assert done.exit_code == 0, done.output
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def registered(manifests: list[Manifest]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the webhooks in each configuration, by its kind and name."""
    return {
        (each["kind"], each["metadata"]["name"]): list(map(comparable, each["webhooks"]))
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for each in of_kind(manifests, kind)
    }


def comparable(webhook: dict[str, Any]) -> dict[str, Any]:
    """Return a webhook whose expressions contain no whitespace."""
    conditions = [
        {**each, "expression": re.sub(r"\s+", "", each["expression"])}
        for each in webhook.get("matchConditions", ())
    ]
    return {**webhook, "matchConditions": conditions}


@pytest.mark.parametrize("name", QUEUES)
def test_the_chart_and_the_command_make_the_same(chart: Helm, tmp_path: Path, name: str) -> None:
    settings = settings_of(QUEUES[name])
    manifests = chart.template(values(settings))
    for version in VERSIONS:
        check_schemas(manifests, version)
    assert registered(manifests) == registered(printed(settings, tmp_path))


@pytest.mark.parametrize("name", ANNOTATION)
def test_the_chart_and_the_command_agree_about_the_annotation(
    chart: Helm, tmp_path: Path, name: str
) -> None:
    settings = settings_of(QUEUES["YuniKorn"])
    settings["admission"] |= ANNOTATION[name]
    made = registered(chart.template(values(settings)))
    assert made == registered(printed(settings, tmp_path))
    assert len(made) == (1 if name == "no duties" else 3)


@pytest.mark.parametrize("files", [["base"], ["base", "queues"]], ids=len)
def test_the_kustomizations_make_the_same(chart: Helm, tmp_path: Path, files: list[str]) -> None:
    """A component adds the checks of queues to the base, which has no settings."""
    folders = [Path("deploy/admission") / each for each in files]
    settings: dict[str, Any] = {}
    if len(folders) > 1:
        (config_map,) = of_kind(
            loaded((folders[1] / "settings.yaml").read_text(encoding="utf-8")), "ConfigMap"
        )
        settings = yaml.safe_load(config_map["data"]["queuegate.yaml"])
    texts = [(folder / "webhooks.yaml").read_text(encoding="utf-8") for folder in folders]
    made = registered([each for text in texts for each in loaded(text)])
    assert made == registered(printed(settings, tmp_path))
    assert made == registered(chart.template(values(settings)))


@pytest.mark.parametrize("scheduler", ["kueue", "kai", "volcano"])
def test_the_chart_makes_what_the_base_does(
    helm: Path, kustomize: Path, tmp_path: Path, scheduler: str
) -> None:
    """With the files of the base as values; nothing of YuniKorn's webhooks comes with it."""
    folder = Path("deploy/queues") / scheduler
    settings = yaml.safe_load((folder / "queuegate.yaml").read_text(encoding="utf-8"))
    webhook = {"enabled": True, "settings": settings}
    chart = Helm(helm, tmp_path, namespace="queuegate")
    made = chart.template({"server": {"enabled": False}, "webhook": webhook})
    base = kustomized(kustomize, folder)
    assert registered(made) == registered(base)
    kinds = ("Secret", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Service")
    same = [[each for each in found if each["kind"] in kinds] for found in (made, base)]
    assert len(same[0]) == 8
    assert same_objects(same[0]) == same_objects(same[1])
    ((_, keeper),), ((_, kept),) = map(certificate_containers, (made, base))
    assert keeper["args"] == kept["args"]
    ((pod, container),) = own_containers(made)
    assert not [each for each in container["args"] if "yunikorn" in each]
    check_names(made, pod, container)
    ((based, _),) = own_containers(base)
    assert [each.get("automountServiceAccountToken", True) for each in (pod, based)] == [True, True]


def test_the_webhook_starts_with_its_settings(chart: Helm, tmp_path: Path) -> None:
    manifests = chart.template(values(settings_of(QUEUES["YuniKorn"])))
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


def test_a_scheduler_without_keys_is_listed(chart: Helm) -> None:
    """The server reads `kueue:` as `kueue: {}`."""
    queues: list[dict[str, Any]] = [{"schedulers": {"kueue": None}}, {"schedulers": {"kueue": {}}}]
    empty, written = (registered(chart.template(values(settings_of(each)))) for each in queues)
    assert empty == written
    assert any(name.endswith("-queues") for _, name in empty)


@rows
def test_wrong_settings_are_refused(chart: Helm, queues: dict[str, Any], key: str) -> None:
    wrong = values(settings_of(queues))
    done = chart.run("template", "queuegate", "deploy/helm/queuegate", values=wrong)
    assert done.returncode != 0
    assert f"webhook/settings/admission/queues/{key}" in done.stderr


def test_answers_without_checks_register_nothing_else(chart: Helm, tmp_path: Path) -> None:
    settings = {"policy": POLICY_SETTINGS, "admission": {"authorize": {"groups": "kubernetes"}}}
    made = registered(chart.template(values(settings)))
    assert made == registered(printed(settings, tmp_path)) == registered(printed({}, tmp_path))
