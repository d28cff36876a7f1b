"""The pages about Kubernetes: their samples are rendered, linted, started and asked.

`tests/e2e/deploy/test_helm.py` does so with the samples of the page about Helm, and
`tests/e2e/kube` with what needs an API server.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
import yaml

from queuegate.cli import main
from queuegate_server.admission.annotations.yunikorn_settings import read_settings
from queuegate_server.settings.load import load_settings
from tests.support import documents
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    VERSIONS,
    certificate_containers,
    check_schemas,
    kustomized,
    own_containers,
    started,
)

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
PAGES = Path("docs/how-to")


def blocks(page: str, language: str) -> list[str]:
    return documents.blocks((PAGES / page).read_text(encoding="utf-8"), language)


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder with deploy/ where the samples have it, and the scheduler's manifests."""
    folder = tmp_path / "overlay"
    shutil.copytree("deploy", folder / "queuegate/deploy")
    shutil.copy("tests/e2e/deploy/yunikorn-scheduler.yaml", folder / "scheduler.yaml")
    return folder


def test_the_sidecar(
    kustomize: Path, overlay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy, kustomization = blocks("deploy-sidecar.md", "yaml")[:2]
    (overlay / "kustomization.yaml").write_text(kustomization)
    (deployment,) = kustomized(kustomize, overlay)
    check_schemas([deployment], VERSIONS[-1])
    container = deployment["spec"]["template"]["spec"]["initContainers"][0]
    assert container["image"] == "registry.example.com/queuegate:0.1.0"
    mounts = tmp_path / "mounts"
    mounts.mkdir()
    ((pod, container),) = own_containers([deployment])
    files = {"yunikorn-configs": {"queues.yaml": policy}}
    command = blocks("deploy-sidecar.md", "sh")[2].partition(" -- \\\n")[2]
    with started([deployment], pod, container, mounts, files):
        asked = shlex.split(command.replace("/run/queuegate", str(mounts / "queuegate-socket")))
        assert asked[0] == "queuegate"
        assert main(asked[1:]) == 0
    assert capsys.readouterr().out.startswith("allowed: alice may submit to root.research")


@pytest.mark.parametrize("namespace", ["", "yunikorn"])
def test_the_sidecar_with_a_directory(kustomize: Path, overlay: Path, namespace: str) -> None:
    _, kustomization, settings, patch, patches = blocks("deploy-sidecar.md", "yaml")
    scheduler = yaml.safe_load((overlay / "scheduler.yaml").read_text(encoding="utf-8"))
    if namespace:
        scheduler["metadata"]["namespace"] = namespace
    (overlay / "scheduler.yaml").write_text(yaml.safe_dump(scheduler))
    (overlay / "kustomization.yaml").write_text(kustomization + patches)
    (overlay / "sidecar-ldap.yaml").write_text(patch)
    (deployment,) = kustomized(kustomize, overlay)
    check_schemas([deployment], VERSIONS[-1])
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert container["image"] == "registry.example.com/queuegate:0.1.0"
    assert "--set=policy.configs=/etc/yunikorn/configs" in container["args"]
    (file,) = [each["value"] for each in container["env"] if each["name"] == "QUEUEGATE_CONFIG"]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(Path(file).parent) in mounts
    corp = yaml.safe_load(settings)["resolvers"]["corp"]
    assert {str(Path(corp[key]).parent) for key in ("ca_file", "bind_password_file")} <= mounts


def test_the_settings_of_the_sidecar_are_checked_before_the_rollout(tmp_path: Path) -> None:
    """The page's command, with the folders that Docker would mount replaced by their sources."""
    settings = blocks("deploy-sidecar.md", "yaml")[2]
    (command,) = [each for each in blocks("deploy-sidecar.md", "sh") if "docker run" in each]
    words = shlex.split(command.replace("$PWD", str(tmp_path)))
    mounts = [words[at + 1].split(":")[:2] for at, word in enumerate(words) if word == "--volume"]
    image = words.index("registry.example.com/queuegate:0.1.0")

    def validated(text: str) -> str:
        for source, target in mounts:
            text = text.replace(f"{target}/", f"{source}/")
        (tmp_path / "queuegate.yaml").write_text(text)
        arguments = " ".join(words[image + 1 :]).replace("/etc/queuegate", str(tmp_path)).split()
        ended = subprocess.run(
            [sys.executable, "-m", "queuegate_server", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode == 0) == (not ended.stdout)
        return ended.stdout + ended.stderr

    assert len(mounts) == 2
    (tmp_path / "password").write_text("secret")
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    assert validated(settings) == "1 file, 0 errors, 0 warnings\n"
    assert "queuegate.yaml:4:13: error" in validated(settings.replace("openldap", "open"))
    (tmp_path / "ca.crt").unlink()
    assert "resolvers.corp.ca_file: the file cannot be read" in validated(settings)


def test_the_policy_of_the_sidecar_is_clean(tmp_path: Path) -> None:
    policy = tmp_path / "queues.yaml"
    policy.write_text(blocks("deploy-sidecar.md", "yaml")[0])
    command = [sys.executable, "-m", "queuegate_server", "lint", str(policy)]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode == 0
    assert "0 errors, 0 warnings" in linted.stdout + linted.stderr


def test_the_patch_names_the_image_that_was_pushed(overlay: Path) -> None:
    push, patch = blocks("deploy-sidecar.md", "sh")[:2]
    (pushed,) = re.findall(r"docker push (\S+)", push)
    assert f"IMAGE={pushed} " in push
    edit, apply = patch.splitlines()
    checkout = overlay / "queuegate"
    subprocess.run(["sh", "-ec", edit], cwd=checkout, check=True)
    (file,) = re.findall(r"--patch-file (\S+)", apply)
    deployment = yaml.safe_load((checkout / file).read_text(encoding="utf-8"))
    assert deployment["kind"] == "Deployment"
    (container,) = deployment["spec"]["template"]["spec"]["initContainers"]
    assert container["image"] == pushed


def test_the_webhook(kustomize: Path, overlay: Path) -> None:
    (overlay / "kustomization.yaml").write_text(blocks("admission-webhook.md", "yaml")[0])
    manifests = kustomized(kustomize, overlay)
    check_schemas(manifests, VERSIONS[-1])
    ((_, container),) = own_containers(manifests)
    assert container["image"] == "registry.example.com/queuegate:0.1.0"


def test_the_webhook_beside_the_other(kustomize: Path, overlay: Path, tmp_path: Path) -> None:
    (bypass, settings, kustomization) = blocks("webhook-beside-yunikorn.md", "yaml")[1:]
    assert read_settings(yaml.safe_load(bypass)).bypass_auth
    (overlay / "admission-settings.yaml").write_text(settings)
    (overlay / "kustomization.yaml").write_text(kustomization)
    manifests = kustomized(kustomize, overlay)
    check_schemas(manifests, VERSIONS[-1])
    ((pod, container),) = own_containers(manifests)
    assert container["image"] == "registry.example.com/queuegate:0.1.0"
    volumes = {each["name"]: each for each in pod["volumes"]}
    name = volumes["yunikorn-configs"]["configMap"]["name"]
    assert volumes["yunikorn-configs"]["configMap"]["optional"]
    config_map = yaml.safe_load(settings)
    assert name == config_map["metadata"]["name"]
    assert not read_settings(config_map["data"]).bypass_auth
    with started(manifests, pod, container, tmp_path, {}):
        pass


def test_the_fleet(kustomize: Path, overlay: Path, tmp_path: Path) -> None:
    certificate, settings, *kustomizations = blocks("deploy-fleet.md", "yaml")
    check_schemas([yaml.safe_load(certificate)], VERSIONS[-1])
    (overlay / "callers.yaml").write_text(settings)
    for kustomization in kustomizations:
        (overlay / "kustomization.yaml").write_text(kustomization)
        manifests = kustomized(kustomize, overlay)
        check_schemas(manifests, VERSIONS[-1])
        ((pod, container),) = own_containers(manifests)
        assert container["image"] == "registry.example.com/queuegate:0.1.0"
        assert ("env" in container) == ("components:" in kustomization)
    volumes = {each["name"]: each for each in pod["volumes"]}
    named = yaml.safe_load(certificate)["spec"]["secretName"]
    assert volumes["certificate"]["secret"]["secretName"] == named
    files = {
        "yunikorn-configs": {"queues.yaml": blocks("deploy-sidecar.md", "yaml")[0]},
        "queuegate-fleet": {"secret": "5" * 64, "password": "password"},
    }
    with started(manifests, pod, container, tmp_path, files):
        pass


def test_the_settings_of_the_fleet_are_checked_before_the_rollout(tmp_path: Path) -> None:
    settings = blocks("deploy-fleet.md", "yaml")[1]
    (command,) = [each for each in blocks("deploy-fleet.md", "sh") if "docker run" in each]
    arguments = command.partition("queuegate:0.1.0 ")[2].split()
    page = (PAGES / "deploy-fleet.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"Files in [^.]* exist only in the cluster", page)
    folders = "|".join(re.findall(r"`(/[^`]+)`", sentence))
    expected = re.compile(rf"<stdin>:\S+ warning: \S+: (?:{folders})\S* does not exist on this .*")

    def unexpected(text: str, status: int) -> list[str]:
        ended = subprocess.run(
            [sys.executable, "-m", "queuegate_server", *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status
        lines = ended.stdout.splitlines()
        assert lines
        return [line for line in lines if not expected.fullmatch(line)]

    assert unexpected(settings, 0) == []
    (mistake,) = unexpected(settings.replace("drain:", "drains:"), 1)
    assert "drains: unknown key (did you mean drain?)" in mistake


def test_the_settings_of_the_webhook(tmp_path: Path) -> None:
    file = tmp_path / "queuegate.yaml"
    file.write_text(blocks("admission-webhook.md", "yaml")[2])
    tls = load_settings(file, {}, []).admission.tls
    assert tls is not None
    assert tls.certificate_file == Path("/etc/queuegate/tls/tls.crt")


def test_the_controllers_of_the_webhook() -> None:
    settings = read_settings(yaml.safe_load(blocks("admission-webhook.md", "yaml")[1]))
    assert settings.system_users.match("system:kube-controller-manager")
    assert settings.system_users.match("system:serviceaccount:kube-system:job-controller")
    assert not settings.system_users.match("system:kube-controller-manager2")


def test_the_base_for_kueue_with_an_image_of_a_registry(kustomize: Path, overlay: Path) -> None:
    (kustomization,) = [
        each for each in blocks("queue-access-kueue.md", "yaml") if "newTag:" in each
    ]
    (overlay / "kustomization.yaml").write_text(kustomization)
    manifests = kustomized(kustomize, overlay)
    containers = [*own_containers(manifests), *certificate_containers(manifests)]
    images = {container["image"] for _, container in containers}
    assert (len(containers), images) == (2, {"registry.example.com/queuegate:0.1.0"})


def test_the_page_about_kueue_shows_the_files_of_the_base() -> None:
    text = (PAGES / "queue-access-kueue.md").read_text(encoding="utf-8")
    files: dict[str, str] = {}
    for each in documents.fenced_blocks(text):
        # The page has further settings beside a policy file.
        files.setdefault(each.file, each.text)
    for name in ("grants.yaml", "queuegate.yaml"):
        assert files[name] == Path("deploy/queues/kueue", name).read_text(encoding="utf-8")


def test_the_base_for_kueue_with_a_policy_file(
    kustomize: Path, overlay: Path, tmp_path: Path
) -> None:
    """The page's files, in place of those of the base; the webhook starts with them."""
    text = (PAGES / "queue-access-kueue.md").read_text(encoding="utf-8")
    base = overlay / "queuegate/deploy/queues/kueue"
    for each in documents.fenced_blocks(text):
        if each.file in {"queues.yaml", "queuegate.yaml"}:
            (base / each.file).write_text(each.text)
    (generators,) = [
        each for each in blocks("queue-access-kueue.md", "yaml") if "configMapGenerator:" in each
    ]
    file = base / "kustomization.yaml"
    before, _, _ = file.read_text(encoding="utf-8").partition("configMapGenerator:")
    file.write_text(before + generators)
    common = base.parent / "base/kustomization.yaml"
    common.write_text(common.read_text(encoding="utf-8").replace("  - rights.yaml\n", ""))
    manifests = kustomized(kustomize, base)
    check_schemas(manifests, VERSIONS[-1])
    ((pod, container),) = own_containers(manifests)
    with started(manifests, pod, container, tmp_path, {}):
        pass
