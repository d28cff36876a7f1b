"""The rights to follow a cluster: the file, the chart and the command give the same ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from queuegate_server.cli.admission import admission
from queuegate_server.policystore.kubernetes.rights import documents
from tests.e2e.deploy.test_helm import CERT_MANAGER, Helm
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import Manifest, loaded, of_kind

FILE = Path("deploy/rbac/rights.yaml")
SETTINGS: dict[str, Any] = {
    "policy": {"kubernetes": {}},
    "admission": {"queues": {"mode": "warn", "schedulers": {"kueue": {}}}},
}
SERVER: dict[str, Any] = {
    "policy": {"kubernetes": {}, "configs": None, "defaults": None},
    "callers": {"certificates": {"cn:scheduler": {}}},
}


def rules(manifests: list[Manifest]) -> list[list[Any]]:
    """Return the rules of the roles that let an account read RBAC."""
    return [
        each["rules"]
        for each in of_kind(manifests, "ClusterRole")
        if each["metadata"]["name"].endswith("-rbac")
    ]


def accounts(manifests: list[Manifest]) -> list[str]:
    return [
        each["subjects"][0]["name"]
        for each in of_kind(manifests, "ClusterRoleBinding")
        if each["metadata"]["name"].endswith("-rbac")
    ]


def test_the_file() -> None:
    written = loaded(FILE.read_text(encoding="utf-8"))
    assert written == documents("queuegate-rbac", "queuegate", "queuegate")
    [found] = rules(written)
    assert {verb for rule in found for verb in rule["verbs"]} == {"list", "watch"}
    assert "*" not in json.dumps(found)


def test_the_command(tmp_path: Path) -> None:
    config = tmp_path / "queuegate.yaml"
    config.write_text(json.dumps(SETTINGS))
    done = CliRunner().invoke(admission, ["manifest", "--config", str(config)])
    assert done.exit_code == 0, done.output
    printed = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert rules(printed) == rules(loaded(FILE.read_text(encoding="utf-8")))
    assert accounts(printed) == ["queuegate-admission"]
    queues = CliRunner().invoke(admission, ["manifest", "--config", str(config), "--queues-only"])
    assert "ClusterRole" not in queues.stdout
    # A kubeconfig names another account.
    policy = {"policy": {"kubernetes": {"kubeconfig": "/run/secrets/kubeconfig"}}}
    config.write_text(json.dumps({**SETTINGS, **policy}))
    queues = CliRunner().invoke(admission, ["manifest", "--config", str(config)])
    assert queues.exit_code == 0, queues.output
    assert "ClusterRole" not in queues.stdout


@pytest.mark.timeout(BUILD_SECONDS)
def test_the_chart(helm: Path, tmp_path: Path) -> None:
    chart = Helm(helm, tmp_path)
    webhook = {**CERT_MANAGER, "settings": SETTINGS}
    values = {"server": {"settings": SERVER}, "webhook": webhook}
    manifests = chart.template(values)
    assert rules(manifests) == rules(loaded(FILE.read_text(encoding="utf-8"))) * 2
    names = {each["metadata"]["name"] for each in of_kind(manifests, "ServiceAccount")}
    assert set(accounts(manifests)) <= names
    pods = {each["metadata"]["name"]: each for each in of_kind(manifests, "Deployment")}
    for account in accounts(manifests):
        [pod] = [
            each["spec"]["template"]["spec"]
            for each in pods.values()
            if each["spec"]["template"]["spec"].get("serviceAccountName") == account
        ]
        assert pod.get("automountServiceAccountToken") is not False


@pytest.mark.timeout(BUILD_SECONDS)
@pytest.mark.parametrize("kubernetes", [None, {"kubeconfig": "/run/secrets/kubeconfig/config"}])
def test_a_chart_that_follows_no_cluster_gives_no_rights(
    helm: Path, tmp_path: Path, kubernetes: Any
) -> None:
    chart = Helm(helm, tmp_path)
    mounts = [{"secret": "kubeconfig", "path": "/run/secrets/kubeconfig"}]
    policy = {"kubernetes": kubernetes, "configs": None, "defaults": None} if kubernetes else {}
    manifests = chart.template({"server": {"settings": {"policy": policy}, "mounts": mounts}})
    assert rules(manifests) == []
    for each in of_kind(manifests, "Deployment"):
        assert each["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
