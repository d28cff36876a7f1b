"""The kustomizations, rendered by kustomize itself."""

import copy
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
import yaml
from click.testing import CliRunner

from queuegate import Client
from queuegate.cli import main
from queuegate_server.cli.policy_files import lint
from queuegate_server.policystore.kubernetes.rights import documents
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    POLICY,
    VERSIONS,
    Manifest,
    certificate_containers,
    check_hardening,
    check_names,
    check_pod_monitor,
    check_schemas,
    check_selectors,
    kustomized,
    loaded,
    of_kind,
    own_containers,
    settings_of,
    started,
)
from tests.support.rows import rows

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
DEPLOY = Path("deploy")
SCHEDULER = Path("tests/e2e/deploy/yunikorn-scheduler.yaml")


@rows
def test_rendered(kustomize: Path, folder: str, kinds: str) -> None:
    manifests = kustomized(kustomize, DEPLOY / folder)
    assert {each["kind"] for each in manifests} >= set(kinds.split())
    assert "ServiceMonitor" not in {each["kind"] for each in manifests}
    check_schemas(manifests, VERSIONS[-1])
    check_selectors(manifests)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for each in of_kind(manifests, kind):
            injected = "cert-manager.io/inject-ca-from" in each["metadata"].get("annotations", {})
            assert injected != is_kept(manifests, each)


def is_kept(manifests: list[Manifest], configuration: Manifest) -> bool:
    """Return whether a pod writes the CA into a configuration, and may do so."""
    plural, name = f"{configuration['kind'].lower()}s", configuration["metadata"]["name"]
    may = any(
        plural in rule["resources"] and name in rule["resourceNames"] and "patch" in rule["verbs"]
        for role in of_kind(manifests, "ClusterRole")
        for rule in role["rules"]
    )
    return may and any(
        f"--configuration={plural}/{name}" in container["args"]
        for _, container in certificate_containers(manifests)
    )


@pytest.mark.parametrize("scheduler", ["kueue", "kai", "volcano"])
def test_a_base_of_a_scheduler(kustomize: Path, scheduler: str) -> None:
    """It has nothing of YuniKorn, and refuses nothing. Its server may follow the cluster's RBAC.

    `tests/e2e/kube` starts it with an API server.
    """
    manifests = kustomized(kustomize, DEPLOY / "queues" / scheduler)
    assert not of_kind(manifests, "MutatingWebhookConfiguration")
    (registered,) = of_kind(manifests, "ValidatingWebhookConfiguration")
    assert {each["failurePolicy"] for each in registered["webhooks"]} == {"Ignore"}
    assert "yunikorn" not in str(manifests)
    for pod, container in (*own_containers(manifests), *certificate_containers(manifests)):
        check_hardening(pod, container)
    namespaces = {
        subject["namespace"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for each in of_kind(manifests, kind)
        for subject in each["subjects"]
    }
    assert namespaces == {"queuegate"}
    ((pod, container),) = own_containers(manifests)
    check_names(manifests, pod, container)
    rights = [each for each in manifests if each["metadata"]["name"] == "queuegate-admission-rbac"]
    assert rights == documents("queuegate-admission-rbac", "queuegate", pod["serviceAccountName"])
    assert pod["automountServiceAccountToken"] is True
    (settings,) = settings_of(manifests, pod).values()
    assert yaml.safe_load(settings)["policy"] == {"kubernetes": {}}
    grants = DEPLOY / "queues" / scheduler / "grants.yaml"
    done = CliRunner().invoke(lint, [str(grants)])
    assert (done.exit_code, done.stdout) == (0, ""), done.output


@pytest.mark.parametrize("folder", ["own-ca", "cert-manager"])
def test_queue_checks(kustomize: Path, tmp_path: Path, folder: str) -> None:
    """Uncommenting a line adds the checks, and the API server gets the webhook's authority."""
    copied = tmp_path / "admission"
    shutil.copytree(DEPLOY / "admission", copied)
    file = copied / folder / "kustomization.yaml"
    text = file.read_text(encoding="utf-8")
    print_again(copied / "queues", tmp_path)
    uncommented = re.sub(r"^#(?=components: |  - )", "", text, flags=re.MULTILINE)
    assert uncommented != text
    file.write_text(uncommented, encoding="utf-8")
    manifests = kustomized(kustomize, copied / folder)
    check_schemas(manifests, VERSIONS[-1])
    (document,) = [
        each
        for each in of_kind(manifests, "ValidatingWebhookConfiguration")
        if each["metadata"]["name"] == "queuegate-admission-queues"
    ]
    assert len(document["webhooks"]) == 2
    assert is_kept(manifests, document) == (folder == "own-ca")
    injected = "cert-manager.io/inject-ca-from" in document["metadata"].get("annotations", {})
    assert injected == (folder == "cert-manager")
    ((pod, container),) = own_containers(manifests)
    check_names(manifests, pod, container)
    (tmp_path / "mounts").mkdir()
    files = {"yunikorn-defaults": {}, "yunikorn-configs": {"queues.yaml": POLICY}}
    with started(manifests, pod, container, tmp_path / "mounts", files):
        pass


def print_again(component: Path, folder: Path) -> None:
    """Print webhooks.yaml with the command in the comment of the component."""
    comment = (component / "kustomization.yaml").read_text(encoding="utf-8")
    (line,) = [each for each in comment.splitlines() if "queuegate-server admission" in each]
    config_map = yaml.safe_load((component / "settings.yaml").read_text(encoding="utf-8"))
    (folder / "queuegate.yaml").write_text(config_map["data"]["queuegate.yaml"], encoding="utf-8")
    command = line.removeprefix("#   queuegate-server ").split()
    server = [sys.executable, "-m", "queuegate_server", *command]
    done = subprocess.run(server, cwd=folder, capture_output=True, text=True, check=True)
    (component / "webhooks.yaml").write_text(done.stdout, encoding="utf-8")


def test_the_person_on_call(
    kustomize: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A certificate for the example's name permits the commands of the runbook; others do not."""
    ca = trustme.CA()
    issued = ca.issue_cert("queuegate.yunikorn.svc")
    certificate = {
        "tls.crt": b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode(),
        "tls.key": issued.private_key_pem.bytes().decode(),
        "ca.crt": ca.cert_pem.bytes().decode(),
    }
    files = {
        "yunikorn-configs": {"queues.yaml": POLICY},
        "queuegate-certificate": certificate,
    }
    manifests = kustomized(kustomize, DEPLOY / "fleet")
    ((pod, container),) = own_containers(manifests)
    (tmp_path / "mounts").mkdir()
    ca.cert_pem.write_to_path(tmp_path / "ca.crt")
    scheduler = ca.issue_cert("yunikorn-scheduler.yunikorn.svc")
    on_call = ca.issue_cert("somebody@example.com", common_name="on-call")
    with started(manifests, pod, container, tmp_path / "mounts", files) as server:
        port = server.address.strip().rpartition(":")[2]

        def statuses(caller: trustme.LeafCert) -> list[int]:
            caller.private_key_and_cert_chain_pem.write_to_path(tmp_path / "caller.pem")
            tls = ["--tls-server-name", "queuegate.yunikorn.svc"]
            for option, name in (("ca", "ca.crt"), ("cert", "caller.pem"), ("key", "caller.pem")):
                tls += [f"--tls-{option}", str(tmp_path / name)]
            asked = ("fleet", "explain alice root.a", "reload --wait", "invalidate --all --wait")
            server_options = ["--address", f"127.0.0.1:{port}", "--timeout", "60"]
            return [main([*server_options, *tls, *each.split()]) for each in asked]

        # The last two need the `admin` role. Without Redis, there is no fleet to show.
        assert statuses(on_call) == [2, 0, 0, 0]
        assert "the server is not in a fleet" in capsys.readouterr().err
        assert statuses(scheduler)[1:] == [0, 2, 2]
        assert "this call needs the admin role" in capsys.readouterr().err


@pytest.mark.parametrize("namespace", ["", "yunikorn"])
def test_sidecar(kustomize: Path, tmp_path: Path, namespace: str) -> None:
    """The component adds a container and what it needs; everything else is as it was."""
    before = yaml.safe_load(SCHEDULER.read_text(encoding="utf-8"))
    if namespace:
        before["metadata"]["namespace"] = namespace
    shutil.copytree(DEPLOY / "sidecar", tmp_path / "overlay/sidecar")
    (tmp_path / "overlay/scheduler.yaml").write_text(yaml.safe_dump(before))
    (tmp_path / "overlay/kustomization.yaml").write_text(
        "resources: [scheduler.yaml]\ncomponents: [sidecar]\n"
    )
    (after,) = kustomized(kustomize, tmp_path / "overlay")
    check_schemas([after], VERSIONS[-1])
    check_names([after], *own_containers([after])[0])
    (monitor,) = of_kind(loaded((DEPLOY / "monitoring/monitors.yaml").read_text()), "PodMonitor")
    check_pod_monitor(monitor, after)
    assert without_queuegate(after) == before
    ((pod, container),) = own_containers([after])
    assert container["restartPolicy"] == "Always"
    (tmp_path / "mounts").mkdir()
    files = {"yunikorn-configs": {"queues.yaml": POLICY}}
    with started([after], pod, container, tmp_path / "mounts", files):
        socket = tmp_path / "mounts/queuegate-socket/queuegate.sock"
        assert stat.S_IMODE(socket.stat().st_mode) == 0o666
        with Client(f"unix:{socket}", timeout=60) as client:
            assert client.check("alice", "root.a", groups=[])


def without_queuegate(deployment: Manifest) -> Manifest:
    """Take out what the component has added."""
    deployment = copy.deepcopy(deployment)
    pod = deployment["spec"]["template"]["spec"]
    assert [each["name"] for each in pod.pop("initContainers")] == ["queuegate"]
    added = {each["name"] for each in pod.pop("volumes")}
    assert added == {"queuegate-socket", "queuegate-defaults", "queuegate-configs"}
    scheduler = pod["containers"][0]
    assert [each["name"] for each in scheduler.pop("volumeMounts")] == ["queuegate-socket"]
    scheduler["env"] = [each for each in scheduler["env"] if each["name"] != "QUEUEGATE_ADDRESS"]
    return deployment
