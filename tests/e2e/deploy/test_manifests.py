"""The manifests: valid, in agreement with each other, and startable as they are."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import kubernetes_validate
import pytest
import trustme
import yaml

import queuegate
from queuegate_server.admission.app import Webhook as WebhookApp
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import server_command
from tests.support.servers.webhook import announced, write_certificate

DEPLOY = Path("deploy")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
VERSIONS = ("1.30", "1.32", "1.34")
# Of others: no published schema of Kubernetes has them.
CUSTOM = {
    "monitoring.coreos.com/v1": {"ServiceMonitor"},
    "cert-manager.io/v1": {"Issuer", "Certificate"},
}
KUSTOMIZE = "kustomize.config.k8s.io/v1beta1"


def documents() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for file in sorted(DEPLOY.rglob("*.yaml")):
        # Written by `make webhook-certificate`, and no part of the repository.
        if file.parent.name == "own-ca" and file.name != "kustomization.yaml":
            continue
        every = yaml.safe_load_all(file.read_text(encoding="utf-8"))
        found.extend((str(file), each) for each in every if isinstance(each, dict))
    return found


DOCUMENTS = documents()


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [document for _, document in DOCUMENTS if document["kind"] == kind]


def containers() -> list[Any]:
    found = []
    for deployment in of_kind("Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            if container["image"].startswith("queuegate:"):
                name = f"{deployment['metadata']['name']}-{container['name']}"
                found.append(pytest.param(pod, container, id=name))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_against_the_schemas_of_kubernetes(version: str) -> None:
    checked = 0
    for file, document in DOCUMENTS:
        api = document["apiVersion"]
        if api in CUSTOM:
            assert document["kind"] in CUSTOM[api]
        elif api != KUSTOMIZE:
            kubernetes_validate.validate(document, version, strict=True)
            checked += 1
        assert document["kind"], file
    assert checked >= 15


def test_the_check_finds_a_misspelt_key() -> None:
    broken = yaml.safe_load((DEPLOY / "fleet/deployment.yaml").read_text(encoding="utf-8"))
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_every_file_is_used() -> None:
    for file, document in DOCUMENTS:
        if document["kind"] != "Kustomization":
            continue
        folder = Path(file).parent
        used = set(document["resources"]) | {patch["path"] for patch in document.get("patches", ())}
        made = {"secret.yaml", "ca-mutating.yaml", "ca-validating.yaml"} & used
        assert all((folder / name).exists() for name in used - made)
        there = {each.name for each in folder.glob("*.yaml")} - {"kustomization.yaml"}
        assert there - made == {name for name in used - made if name.endswith(".yaml")}


@pytest.mark.parametrize(("pod", "container"), containers())
def test_hardening(pod: dict[str, Any], container: dict[str, Any]) -> None:
    security = {**pod["securityContext"], **container["securityContext"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert container.keys() >= set(PROBES)


@pytest.mark.parametrize(("pod", "container"), containers())
def test_names_agree(pod: dict[str, Any], container: dict[str, Any]) -> None:
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts <= {volume["name"] for volume in pod["volumes"]}
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
    said = " ".join((*container["args"], *settings_of(pod).values()))
    listened = set(re.findall(r"0\.0\.0\.0:(\d+)", said))
    assert listened == {str(port) for port in ports.values()}
    for probe in PROBES:
        asked = container[probe]
        if "grpc" in asked:
            assert asked["grpc"]["port"] in ports.values()
        else:
            assert ports[asked["httpGet"]["port"]]


@pytest.mark.parametrize(("pod", "container"), containers())
def test_nothing_but_the_health_in_plaintext(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    """Callers of other machines have no role without a credential, wherever they call."""
    said = " ".join((*container["args"], *settings_of(pod).values()))
    if "insecure" in said:
        assert "callers.loopback.roles=[]" in said
        assert "certificates" not in said
        assert "token" not in said


def settings_of(pod: dict[str, Any]) -> dict[str, str]:
    """Return the settings that are mounted, as file names and texts."""
    named = {volume.get("configMap", {}).get("name") for volume in pod["volumes"]}
    return {
        name: text
        for document in of_kind("ConfigMap")
        if document["metadata"]["name"] in named & {"queuegate-settings"}
        for name, text in document["data"].items()
    }


def test_services_select_pods() -> None:
    templates = [deployment["spec"]["template"] for deployment in of_kind("Deployment")]
    services = {service["metadata"]["name"]: service for service in of_kind("Service")}
    for service in services.values():
        wanted = service["spec"]["selector"].items()
        (template,) = [each for each in templates if wanted <= each["metadata"]["labels"].items()]
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        for document in of_kind(kind):
            spec = document["spec"]
            selector = (spec.get("selector") or spec["podSelector"])["matchLabels"].items()
            assert any(selector <= each["metadata"]["labels"].items() for each in templates)
    for monitor in of_kind("ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [
            each for each in services.values() if selector <= each["metadata"]["labels"].items()
        ]
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {each["port"] for each in monitor["spec"]["endpoints"]} <= ports


def test_webhooks_ask_what_is_served() -> None:
    routes = {route.path for route in WebhookApp.routes(_Nothing())}  # type: ignore[arg-type]
    services = {service["metadata"]["name"]: service for service in of_kind("Service")}
    seen = set()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for document in of_kind(kind):
            for webhook in document["webhooks"]:
                asked = webhook["clientConfig"]["service"]
                ports = {port["port"] for port in services[asked["name"]]["spec"]["ports"]}
                assert asked["port"] in ports
                seen.add(asked["path"])
                configuration = asked["path"] == "/validate-conf"
                assert webhook["failurePolicy"] == ("Ignore" if configuration else "Fail")
                assert webhook["sideEffects"] == "None"
    assert seen == routes


class _Nothing:
    """Enough of a webhook to list its routes."""

    def __getattr__(self, name: str) -> Any:
        return WebhookApp._route.__get__(self) if name == "_route" else id


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def mounted(
    pod: dict[str, Any], container: dict[str, Any], folder: Path, ca: trustme.CA
) -> Iterator[tuple[str, str]]:
    """Make what each volume mounts; give the path in the container and the one here."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    config_maps = {each["metadata"]["name"]: each["data"] for each in of_kind("ConfigMap")}
    for mount in container["volumeMounts"]:
        here = folder / mount["name"]
        here.mkdir()
        volume = volumes[mount["name"]]
        for key, value in config_maps.get(volume.get("configMap", {}).get("name"), {}).items():
            (here / key).write_text(value, encoding="utf-8")
        if "secret" in volume:
            write_certificate(ca, here)
            ca.cert_pem.write_to_path(here / "ca.crt")
        yield mount["mountPath"], str(here)


@pytest.mark.parametrize(("pod", "container"), containers())
def test_server_starts_with_these_arguments(
    pod: dict[str, Any], container: dict[str, Any], tmp_path: Path, ca: trustme.CA
) -> None:
    """Exactly these; only folders and ports are replaced by free ones."""
    folders = dict(mounted(pod, container, tmp_path, ca))
    ports: dict[int, int] = {}
    named_ports = {port["containerPort"] for port in container.get("ports", ())}
    settings = settings_of(pod)
    for port in named_ports | set(map(int, re.findall(r"127\.0\.0\.1:(\d+)", str(settings)))):
        ports[port] = free_port()

    def here(text: str) -> str:
        for folder, replaced in folders.items():
            text = re.sub(rf"{re.escape(folder)}(?=/|$)", replaced, text, flags=re.MULTILINE)
        for port, replaced_port in ports.items():
            text = re.sub(rf":{port}(?!\d)", f":{replaced_port}", text)
        return text

    for name, text in settings.items():
        (Path(folders["/etc/queuegate"]) / name).write_text(here(text), encoding="utf-8")
    arguments = [here(argument) for argument in container["args"]]
    with announced(server_command(*arguments), {}) as (server, line):
        assert line.startswith("serving ")
        for probe in PROBES:
            asked = container[probe]
            if "grpc" in asked:
                address = f"127.0.0.1:{ports[asked['grpc']['port']]}"
                with queuegate.Client(address, timeout=60) as client:
                    assert client.health()
                    with pytest.raises(queuegate.NotPermitted):
                        client.check("alice", "root")
            else:
                named = {port["name"]: port["containerPort"] for port in container["ports"]}
                port_here = ports[named[asked["httpGet"]["port"]]]
                path = asked["httpGet"]["path"]
                assert (
                    httpx2.get(f"http://127.0.0.1:{port_here}{path}", timeout=60).status_code == 200
                )
        server.process.terminate()
        server.wait_for_log("draining")


@pytest.mark.parametrize(("pod", "container"), containers())
def test_a_pod_is_not_killed_while_it_drains(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    words = " ".join(container["args"])
    delay = re.search(r"drain(?:\.delay=|-seconds=)(\d+)", words)
    # 20 s is how long both servers wait for what they are asked.
    assert (int(delay[1]) if delay else 0) + 20 < pod.get("terminationGracePeriodSeconds", 30)


def test_own_certificate(tmp_path: Path) -> None:
    script = DEPLOY / "admission/own-ca/make_certificate.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    secret = yaml.safe_load((tmp_path / "secret.yaml").read_text(encoding="utf-8"))
    kubernetes_validate.validate(secret, VERSIONS[-1], strict=True)
    (deployment,) = [
        each for each in of_kind("Deployment") if each["metadata"]["name"] == "queuegate-admission"
    ]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (named,) = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
    assert secret["metadata"]["name"] == named
    assert (tmp_path / "secret.yaml").stat().st_mode & 0o077 == 0
    for file, kind in (
        ("ca-mutating.yaml", "MutatingWebhookConfiguration"),
        ("ca-validating.yaml", "ValidatingWebhookConfiguration"),
    ):
        patch = yaml.safe_load((tmp_path / file).read_text(encoding="utf-8"))
        (document,) = of_kind(kind)
        assert len(patch) == len(document["webhooks"])
