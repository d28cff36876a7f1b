"""The Valkey of the manifests and of the chart: started as it is, with servers that use it."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.eventually import eventually
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import (
    VERSIONS,
    Manifest,
    check_hardening,
    check_names,
    check_schemas,
    check_selectors,
    kustomized,
    loaded,
    of_kind,
    own_containers,
    started,
)
from tests.support.servers.free_ports import free_port
from tests.support.servers.redis_server import program

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
CHART = Path("deploy/helm/queuegate")
ADDRESS = "queuegate-valkey:6379"
PASSWORD = "p 'a$s\"s"
FILES = {
    "yunikorn-defaults": {},
    "yunikorn-configs": {"queues.yaml": "partitions: [{name: default, queues: [{name: root}]}]"},
    "queuegate-fleet": {"secret": "5" * 64, "password": f"{PASSWORD}\n"},
}


@pytest.fixture(scope="module")
def from_kustomize(kustomize: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    folder = tmp_path_factory.mktemp("overlay")
    deploy = Path("deploy").resolve()
    for name in ("fleet", "valkey"):
        (folder / name).symlink_to(deploy / name)
    overlay = {"namespace": "yunikorn", "resources": ["fleet"], "components": ["valkey"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return kustomized(kustomize, folder)


@pytest.fixture(scope="module")
def from_chart(helm: Path) -> list[Manifest]:
    return charted(helm, "valkey.enabled=true")


def charted(helm: Path, *values: str, release: str = "queuegate") -> list[Manifest]:
    command = [str(helm), "template", release, str(CHART), "--namespace", "yunikorn"]
    command += [part for each in values for part in ("--set", each)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return loaded(done.stdout)


@pytest.fixture(params=["from_kustomize", "from_chart"])
def manifests(request: pytest.FixtureRequest) -> list[Manifest]:
    found: list[Manifest] = request.getfixturevalue(request.param)
    return found


def test_the_servers_share_groups(manifests: list[Manifest], tmp_path: Path) -> None:
    for version in VERSIONS:
        check_schemas(manifests, version)
    check_selectors(manifests)
    ((pod, container),) = own_containers(manifests)
    check_hardening(pod, container)
    check_names(manifests, pod, container)
    with running_valkey(manifests, tmp_path) as address:
        (tmp_path / "server").mkdir()
        replaced = {ADDRESS: address}
        folder = tmp_path / "server"
        with started(manifests, pod, container, folder, FILES, replaced) as server:
            server.wait_for_log("following the fleet")
            assert not [each for each in server.logs if "Redis" in each["event"]]


def test_only_the_account_may_ask(manifests: list[Manifest], tmp_path: Path) -> None:
    with running_valkey(manifests, tmp_path) as address:
        assert told(address, "PING").startswith("-NOAUTH")
        assert told(address, "AUTH default x", "PING").startswith("-WRONGPASS")
        account = f"AUTH queuegate {quoted(PASSWORD)}"
        assert told(address, account, "SET a b").endswith("+OK\r\n")
        for command in ("FLUSHALL", "CONFIG GET *", "KEYS *", "SHUTDOWN", "ACL LIST"):
            assert "-NOPERM" in told(address, account, command)


def test_one_image_is_pinned_by_its_digest() -> None:
    compose = yaml.safe_load(Path("deploy/compose/compose.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    (stateful,) = of_kind(loaded(Path("deploy/valkey/valkey.yaml").read_text()), "StatefulSet")
    images = {
        compose["services"]["valkey"]["image"],
        values["valkey"]["image"],
        stateful["spec"]["template"]["spec"]["containers"][0]["image"],
    }
    (image,) = images
    assert re.fullmatch(r"valkey/valkey:[0-9]+\.[0-9]+\.[0-9]+-alpine@sha256:[0-9a-f]{64}", image)


def test_its_pod_is_hardened(manifests: list[Manifest]) -> None:
    (stateful,) = of_kind(manifests, "StatefulSet")
    assert stateful["spec"]["replicas"] == 1
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    security = {**pod["securityContext"], **container["securityContext"]}
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    (secret,) = [each["secret"] for each in pod["volumes"] if "secret" in each]
    assert secret["items"] == [{"key": "password", "path": "password"}]


def test_the_network_policies_fit(manifests: list[Manifest]) -> None:
    """What the server may ask is what lets it in, and it is where the server connects to."""
    policies = {
        each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "NetworkPolicy")
    }
    server, valkey = policies["queuegate"], policies["queuegate-valkey"]
    (rule,) = valkey["ingress"]
    assert rule["from"] == [{"podSelector": server["podSelector"]}]
    egress = server["egress"][-1]
    assert egress["to"] == [{"podSelector": valkey["podSelector"]}]
    assert egress["ports"] == rule["ports"]
    assert valkey["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in valkey, "it connects to nothing"
    (service,) = [
        each for each in of_kind(manifests, "Service") if "valkey" in each["metadata"]["name"]
    ]
    assert f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}" == ADDRESS
    assert service["spec"]["selector"] == valkey["podSelector"]["matchLabels"]


def test_the_chart_and_the_component_make_the_same(
    from_kustomize: list[Manifest], from_chart: list[Manifest]
) -> None:
    def spec(manifests: list[Manifest]) -> dict[str, Any]:
        (stateful,) = of_kind(manifests, "StatefulSet")
        found: dict[str, Any] = stateful["spec"]["template"]["spec"]
        return found

    def conf(manifests: list[Manifest]) -> str:
        (text,) = [
            each["data"]["valkey.conf"]
            for each in of_kind(manifests, "ConfigMap")
            if "valkey.conf" in each["data"]
        ]
        return str(text).strip()

    def environment(manifests: list[Manifest]) -> list[Any]:
        ((_, container),) = own_containers(manifests)
        found: list[Any] = container["env"]
        return found

    assert spec(from_kustomize) == spec(from_chart)
    assert conf(from_kustomize) == conf(from_chart)
    assert environment(from_kustomize) == environment(from_chart)


def test_values_of_the_chart(helm: Path) -> None:
    manifests = charted(
        helm,
        "valkey.enabled=true",
        "valkey.image=registry.example.com/valkey:1",
        "valkey.secret=other",
        "valkey.maxMemory=1gb",
        "valkey.pod.priorityClassName=high",
        release="scheduling",
    )
    (stateful,) = of_kind(manifests, "StatefulSet")
    assert stateful["metadata"]["name"] == "scheduling-queuegate-valkey"
    pod = stateful["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.com/valkey:1"
    assert pod["priorityClassName"] == "high"
    ((server, container),) = own_containers(manifests)
    names = {
        each.get("secret", {}).get("secretName") for each in (*server["volumes"], *pod["volumes"])
    }
    assert "other" in names
    assert "queuegate-fleet" not in names
    assert container["env"][0]["value"] == "redis://scheduling-queuegate-valkey:6379"
    assert any(
        "maxmemory 1gb" in each["data"].get("valkey.conf", "")
        for each in of_kind(manifests, "ConfigMap")
    )


@contextmanager
def running_valkey(manifests: list[Manifest], folder: Path) -> Iterator[str]:
    """Run the container's command; yield the address. Redis stands in where Valkey is absent."""
    (stateful,) = of_kind(manifests, "StatefulSet")
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    (conf,) = [
        each["data"]["valkey.conf"]
        for each in of_kind(manifests, "ConfigMap")
        if "valkey.conf" in each["data"]
    ]
    port = free_port()
    (folder / "bin").mkdir()
    (folder / "bin/valkey-server").symlink_to(Path("/usr/bin") / program().rpartition("/")[2])
    (folder / "valkey.conf").write_text(f"{conf}\nport {port}\nbind 127.0.0.1\n")
    (folder / "password").write_text(FILES["queuegate-fleet"]["password"])
    text = container["args"][0]
    for there, here in (("/etc/valkey", folder), ("/run/secrets/fleet", folder)):
        assert there in text
        text = text.replace(there, str(here))
    with (folder / "valkey.log").open("w") as log:
        process = subprocess.Popen(
            [*container["command"], text],
            env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        eventually(lambda: _connects(port), True)
        command_line = Path(f"/proc/{process.pid}/cmdline").read_text()
        assert "valkey-server" in command_line  # no shell is left, which would keep SIGTERM
        assert PASSWORD not in command_line
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(60) == 0


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 10).close()
    except OSError:
        return False
    return True


def told(address: str, *lines: str) -> str:
    """Send inline commands; return all answers."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), 60) as connection:
        answer = ""
        for line in lines:
            connection.sendall(f"{line}\r\n".encode())
            answer += connection.recv(65_536).decode()
        return answer


def quoted(text: str) -> str:
    """Return a text as an argument of an inline command."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
