"""The answers to probes in each phase of a server's life."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuegate
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get, get_json, ops_address
from tests.support.servers.blocking_pipes import blocking_server_command
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.reloading_server import ALICE, BOB


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policy") / "queues.yaml"
    file.write_text(ALICE)
    return file


@pytest.fixture(scope="module")
def server(policy: Path) -> Iterator[RunningServer]:
    with running_server("--policy", str(policy), *LISTEN) as started:
        yield started


def probes(address: str) -> dict[str, int]:
    paths = ("/livez", "/healthz", "/readyz", "/startupz", "/metrics", "/version")
    return {path: get(address, path)[0] for path in paths}


ALL_WELL = dict.fromkeys(
    ("/livez", "/healthz", "/readyz", "/startupz", "/metrics", "/version"), 200
)


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        return False
    return True


def test_before_the_first_policy(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    os.mkfifo(path)
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        blocking_server_command(
            "serve", "--policy", str(path), "--listen", f"unix:{tmp_path}/q.sock",
            "--set", f"ops.listen={address}",
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        eventually(lambda: answers(address), expected=True)
        assert probes(address) == {**ALL_WELL, "/readyz": 503, "/startupz": 503}
        _, details = get_json(address, "/readyz")
        assert details["phase"] == "starting"
        assert details["policy"] == {"loaded": False}
        assert details["resolvers"] == {"initialised": False, "unusable": [], "changes": []}
        assert get_json(address, "/startupz")[1] == {"started": False, "phase": "starting"}
        file = tmp_path / "file"
        file.write_text(ALICE)
        pipe = os.open(path, os.O_WRONLY)
        file.replace(path)
        os.write(pipe, ALICE.encode())
        os.close(pipe)
        eventually(lambda: probes(address), ALL_WELL)
    finally:
        process.kill()
        process.communicate()


def test_while_serving(server: RunningServer) -> None:
    address = ops_address(server)
    assert probes(address) == ALL_WELL
    assert get(address, "/livez") == (200, "ok\n")
    _, details = get_json(address, "/readyz")
    assert (details["ready"], details["phase"]) == (True, "serving")
    assert details["policy"]["loaded"]
    assert details["policy"]["revision"] >= 1
    assert details["resolvers"] == {"initialised": True, "unusable": [], "changes": []}
    assert details["last_reload"]["succeeded"]
    assert details["settings"] == {"valid": True, "findings": [], "require_restart": []}
    assert set(get_json(address, "/version")[1]) == {"version", "python", "grpc"}
    paths = "/livez /healthz /readyz /startupz /metrics /version"
    assert get(address, "/") == (404, f"Not Found; this port serves {paths}\n")


def test_a_failed_reload_leaves_the_server_ready(server: RunningServer, policy: Path) -> None:
    address = ops_address(server)
    revision = get_json(address, "/readyz")[1]["policy"]["revision"]
    replace(policy, ALICE.replace('"alice"', '"a secret-name c"'))
    eventually(lambda: get_json(address, "/readyz")[1]["last_reload"]["succeeded"], expected=False)
    status, details = get_json(address, "/readyz")
    assert (status, details["ready"], details["policy"]["revision"]) == (200, True, revision)
    last = details["last_reload"]
    assert last["failed_at"].endswith("+00:00")
    assert last["findings_not_shown"] == 0
    (finding,) = last["findings"]
    assert finding == {"file": str(policy), "line": 8, "column": 24, "severity": "error"}
    # A diagnostic's message can name users and queues; its place does not.
    assert "secret-name" not in get(address, "/readyz")[1]
    replace(policy, BOB)
    eventually(lambda: get_json(address, "/readyz")[1]["last_reload"]["succeeded"], expected=True)
    assert get_json(address, "/readyz")[1]["policy"]["revision"] == revision + 1


def test_no_user_group_or_queue_is_named(server: RunningServer) -> None:
    names = ("secret-user", "secret-group", "secret-queue")
    user, group, queue = names
    with queuegate.Client(server.address, timeout=60) as client:
        client.check(user, f"root.{queue}", groups=[group])
        client.explain(user, f"root.{queue}", groups=[group])
        with pytest.raises(queuegate.InvalidArgument):
            client.check(user, f"root..{queue}", groups=[group])
    said = "".join(get(ops_address(server), path)[1] for path in ALL_WELL)
    assert [name for name in names if name in said] == []


def test_until_the_end_of_the_drain(policy: Path) -> None:
    with running_server("--policy", str(policy), *LISTEN, "--set", "drain.delay=5s") as server:
        address = ops_address(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining")
        eventually(lambda: get_json(address, "/readyz")[1]["phase"], "draining")
        assert probes(address) == {**ALL_WELL, "/readyz": 503}
        assert server.process.wait(60) == 0
        assert not answers(address)


def test_no_admin_port_by_default() -> None:
    """Two servers on one machine must not conflict."""
    with running_server() as server:
        assert "operations port is open" not in [log["event"] for log in server.logs]
