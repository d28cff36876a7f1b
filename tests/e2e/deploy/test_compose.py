"""The compose file: read by the code of Docker Compose, and its containers started as they are."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import queuegate
from tests.support.eventually import eventually
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, server_command, start_command
from tests.support.servers.redis_server import program
from tests.support.servers.webhook import announced

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
FILE = Path("deploy/compose/compose.yaml")


@pytest.fixture(scope="module")
def project(compose: Path) -> dict[str, Any]:
    command = [str(compose), "-format", "json", FILE.name]
    done = subprocess.run(command, cwd=FILE.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_the_servers_are_one_fleet(project: dict[str, Any], tmp_path: Path) -> None:
    with running(project, tmp_path) as addresses:
        clients = {name: queuegate.Client(each, timeout=60) for name, each in addresses.items()}
        eventually(lambda: clients["one"].get_fleet().agreed, True)
        assert [each.name for each in clients["two"].get_fleet().replicas] == ["one", "two"]
        assert clients["two"].check("sue", "root.analytics.reports").allowed
        eventually(lambda: len(clients["one"].invalidate(["sue"], wait=True).waited_out), 0)
        for client in clients.values():
            client.close()


def test_containers_have_no_rights(project: dict[str, Any]) -> None:
    for service in project["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "ports" not in service
    assert project["services"]["valkey"]["network_mode"] == "none"
    options = project["volumes"]["valkey"]["driver_opts"]
    user, _, group = project["services"]["valkey"]["user"].partition(":")
    assert options["o"] == f"uid={user},gid={group},mode=0700"


def test_commands_of_its_comment_make_the_secret(tmp_path: Path) -> None:
    comment = re.findall(r"^#   (.*)$", FILE.read_text(), re.MULTILINE)
    assert comment[-1] == "docker compose up --detach"
    (command,) = [each for each in comment if "openssl" in each]
    subprocess.run(["sh", "-c", f"umask 022; {command}"], cwd=tmp_path, check=True)
    secret = tmp_path / "fleet-secret"
    assert len(secret.read_text().strip()) == 64
    assert secret.stat().st_mode & 0o777 == 0o600


@contextmanager
def running(project: dict[str, Any], folder: Path) -> Iterator[dict[str, str]]:
    """Run all services; yield the addresses of the servers by their names.

    Paths in the containers become paths here, and Redis stands in where Valkey is absent.
    """
    (folder / "valkey").mkdir()
    (folder / "fleet-secret").write_text("5" * 64)
    (folder / "fleet-secret").chmod(0o400)
    paths = {"/run/valkey": str(folder / "valkey"), "/run/secrets": str(folder)}
    services = project["services"]
    with ExitStack() as stack:
        stack.enter_context(_valkey(services["valkey"], folder, paths))
        addresses = {}
        for name in ("one", "two"):
            service = services[name]
            assert service["secrets"] == [
                {"source": "fleet-secret", "target": "/run/secrets/fleet-secret"}
            ]
            binds = {
                each["target"]: each["source"]
                for each in service["volumes"]
                if each["type"] == "bind"
            }
            settings = folder / f"{name}.yaml"
            written = Path(binds["/etc/queuegate/queuegate.yaml"]).read_text()
            mounted = paths | binds | {"/etc/queuegate/queuegate.yaml": str(settings)}
            settings.write_text(_here(written, mounted))
            variables = dict(service["environment"])
            assert variables["QUEUEGATE_LISTEN"] == variables["QUEUEGATE_ADDRESS"]
            variables["QUEUEGATE_LISTEN"] = addresses[name] = f"127.0.0.1:{free_port()}"
            command = server_command(*(_here(each, mounted) for each in service["command"]))
            server = stack.enter_context(_server(command, variables))
            server.wait_for_log("following the fleet")
        yield addresses


@contextmanager
def _server(command: list[str], variables: dict[str, str]) -> Iterator[RunningServer]:
    with announced(start_command(command, variables)) as (server, line):
        assert line.startswith("serving ")
        yield server


@contextmanager
def _valkey(service: dict[str, Any], folder: Path, paths: dict[str, str]) -> Iterator[None]:
    written = service["command"]
    words = shlex.split(written) if isinstance(written, str) else written
    assert words[0] == "valkey-server"
    with (folder / "valkey.log").open("w") as log:
        process = subprocess.Popen(
            [program(), *(_here(each, paths) for each in words[1:])],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        eventually((folder / "valkey/valkey.sock").exists, True)
        yield
    finally:
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


def _here(text: str, paths: dict[str, str]) -> str:
    for there, here in paths.items():
        text = text.replace(there, here)
    return text
