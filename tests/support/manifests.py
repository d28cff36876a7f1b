"""Manifests as lists of objects: read, rendered by kustomize and Helm, and started as they are."""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import kubernetes_validate
import trustme
import yaml

from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, server_command, start_command
from tests.support.servers.webhook import announced, write_certificate

Manifest = dict[str, Any]
PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
POLICY: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""
"""A policy for the servers in the manifests."""
VERSIONS: Final = ("1.30", "1.32", "1.34")
CUSTOM: Final = {
    "monitoring.coreos.com/v1": {"ServiceMonitor", "PodMonitor", "PrometheusRule"},
    "cert-manager.io/v1": {"Issuer", "Certificate"},
}
"""Kinds from other projects, for which Kubernetes publishes no schema."""
_OWN: Final = re.compile(r"(?:^|/)queuegate[:@]")


def loaded(text: str) -> list[Manifest]:
    """Return the objects of a YAML stream. A JSON patch is not an object."""
    return [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]


def kustomized(kustomize: Path, folder: Path) -> list[Manifest]:
    """Return the objects that `kubectl apply -k` would apply."""
    done = subprocess.run([str(kustomize), "build", str(folder)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return loaded(done.stdout.decode())


def check_schemas(manifests: Iterable[Manifest], version: str) -> int:
    """Validate the objects of Kubernetes' own kinds, and return their number."""
    checked = 0
    for each in manifests:
        if each["apiVersion"] in CUSTOM:
            assert each["kind"] in CUSTOM[each["apiVersion"]]
        else:
            kubernetes_validate.validate(each, version, strict=True)
            checked += 1
    return checked


def of_kind(manifests: Iterable[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind]


def own_containers(manifests: Iterable[Manifest]) -> list[tuple[Manifest, Manifest]]:
    """Return the containers of our servers, each with the specification of its pod."""
    return [(pod, each) for pod, each in _ours(manifests) if "ports" in each]


def certificate_containers(manifests: Iterable[Manifest]) -> list[tuple[Manifest, Manifest]]:
    """Return the containers that keep certificates, each with the specification of its pod."""
    return [(pod, each) for pod, each in _ours(manifests) if "certificate" in each["args"]]


def _ours(manifests: Iterable[Manifest]) -> list[tuple[Manifest, Manifest]]:
    containers = []
    for deployment in of_kind(manifests, "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        every = (*pod.get("initContainers", ()), *pod["containers"])
        containers += [(pod, each) for each in every if _OWN.search(each.get("image", ""))]
    return containers


def settings_of(manifests: Iterable[Manifest], pod: Manifest) -> dict[str, str]:
    """Return the mounted settings, as file names and texts."""
    named = {name for volume in pod["volumes"] for name in _config_maps(volume)}
    return {
        name: text
        for each in of_kind(manifests, "ConfigMap")
        if each["metadata"]["name"] in named and "queuegate.yaml" in each["data"]
        for name, text in each["data"].items()
    }


def follows_cluster(manifests: Iterable[Manifest], pod: Manifest) -> bool:
    """Return whether the policy in the mounted settings is the RBAC of a cluster."""
    texts = settings_of(manifests, pod).values()
    return any("kubernetes" in (yaml.safe_load(text).get("policy") or {}) for text in texts)


def _config_maps(volume: Manifest) -> list[str]:
    """Return the ConfigMaps that a volume contains."""
    sources = (volume, *volume.get("projected", {}).get("sources", ()))
    return [each["configMap"]["name"] for each in sources if "configMap" in each]


def check_hardening(pod: Manifest, container: Manifest) -> None:
    security = {**pod.get("securityContext", {}), **container["securityContext"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == 65532
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "ports" not in container or container.keys() >= set(PROBES)


def check_names(manifests: Iterable[Manifest], pod: Manifest, container: Manifest) -> None:
    """Check that mounts name volumes, probes name ports, and the server listens on these."""
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts <= {volume["name"] for volume in pod["volumes"]}
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    said = " ".join((*container["args"], *settings_of(manifests, pod).values()))
    assert set(re.findall(r"0\.0\.0\.0:(\d+)", said)) == {str(port) for port in ports.values()}
    assert "insecure" not in said
    for probe in PROBES:
        assert ports[container[probe]["httpGet"]["port"]]
    # Both servers wait 20 s for answers to their requests.
    delay = re.search(r"(?:delay: |delay=)(\d+)", said)
    drain = (int(delay[1]) if delay else 0) + 20
    assert drain < pod.get("terminationGracePeriodSeconds", 30)


def check_selectors(manifests: list[Manifest]) -> None:
    """Check that services, budgets, policies and monitors select the ports that they name."""
    templates = [
        each["spec"]["template"]
        for kind in ("Deployment", "StatefulSet")
        for each in of_kind(manifests, kind)
    ]
    services = of_kind(manifests, "Service")
    for service in services:
        wanted = service["spec"]["selector"].items()
        (template,) = [each for each in templates if wanted <= each["metadata"]["labels"].items()]
        ports = {port["name"] for port in template["spec"]["containers"][0].get("ports", ())}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        for each in of_kind(manifests, kind):
            selector = (each["spec"].get("selector") or each["spec"]["podSelector"])["matchLabels"]
            assert any(
                selector.items() <= template["metadata"]["labels"].items() for template in templates
            )
    for monitor in of_kind(manifests, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [each for each in services if wanted <= each["metadata"]["labels"].items()]
        assert monitor["spec"]["jobLabel"] in service["metadata"]["labels"]
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {each["port"] for each in monitor["spec"]["endpoints"]} <= ports


def check_pod_monitor(monitor: Manifest, deployment: Manifest) -> None:
    """Check that a monitor selects the pods of a Deployment, and a port of our container."""
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ((_, container),) = own_containers([deployment])
    ports = {port["name"] for port in container["ports"]}
    assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} <= ports


@contextmanager
def started(
    manifests: list[Manifest],
    pod: Manifest,
    container: Manifest,
    folder: Path,
    files: dict[str, dict[str, str]],
    hosts: dict[str, str] | None = None,
) -> Iterator[RunningServer]:
    """Run a container's command with its mounts and variables. Only folders, ports and hosts are
    replaced.

    Args:
        manifests: all objects, for the settings.
        pod: the specification of the pod.
        container: the container in it.
        folder: an empty folder for the mounts.
        files: the contents of ConfigMaps and Secrets that already exist.
        hosts: the addresses that replace others, such as Valkey's.

    """
    folders = dict(_mounted(manifests, pod, container, folder, files))
    ports = {each["containerPort"]: free_port() for each in container["ports"]}
    here = _replacing(folders, ports, hosts or {})
    for name, text in settings_of(manifests, pod).items():
        # The webhook's certificate is mounted below /etc/queuegate.
        mounted = folders.get("/etc/queuegate/settings") or folders["/etc/queuegate"]
        (Path(mounted) / name).write_text(here(text), encoding="utf-8")
    *wrapper, _ = container.get("command", ("queuegate-server",))
    command = [*wrapper, *server_command(*map(here, container["args"]))]
    directory = here(container["workingDir"]) if "workingDir" in container else None
    variables = {each["name"]: here(each["value"]) for each in container.get("env", ())}
    with announced(start_command(command, variables, directory)) as (server, line):
        assert line.startswith("serving ")
        for probe in PROBES:
            asked = container[probe]["httpGet"]
            named = {each["name"]: each["containerPort"] for each in container["ports"]}
            url = f"http://127.0.0.1:{ports[named[asked['port']]]}{asked['path']}"
            assert httpx2.get(url, timeout=60).status_code == 200
        yield server
        server.process.terminate()
        server.wait_for_log("draining")


def _mounted(
    manifests: list[Manifest],
    pod: Manifest,
    container: Manifest,
    folder: Path,
    files: dict[str, dict[str, str]],
) -> Iterator[tuple[str, str]]:
    """Create the contents of each volume. Return the path in the container and the local one."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    contents = {
        each["metadata"]["name"]: each["data"] for each in of_kind(manifests, "ConfigMap")
    } | files
    for mount in container["volumeMounts"]:
        here = folder / mount["name"]
        here.mkdir()
        volume = volumes[mount["name"]]
        name = volume.get("secret", {}).get("secretName")
        for each in (name, *_config_maps(volume)):
            for key, text in contents.get(each, {}).items():
                (here / key).write_text(text, encoding="utf-8")
        if "secret" in volume and name not in contents:
            ca = trustme.CA()
            write_certificate(ca, here)
            ca.cert_pem.write_to_path(here / "ca.crt")
        yield mount["mountPath"], str(here)


def _replacing(
    folders: dict[str, str], ports: dict[int, int], hosts: dict[str, str]
) -> Callable[[str], str]:
    def here(text: str) -> str:
        for host, address in hosts.items():
            text = text.replace(host, address)
        for path, replaced in folders.items():
            text = re.sub(rf"{re.escape(path)}(?=/|$)", replaced, text, flags=re.MULTILINE)
        for port, free in ports.items():
            text = re.sub(rf":{port}(?!\d)", f":{free}", text)
        return text

    return here
