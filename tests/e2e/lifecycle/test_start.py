"""The start of a server."""

import os
import resource
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

import queuegate
from tests.support.servers.queuegate_server import RunningServer, running_server, server_command

SERVICES = ["AccessService", "UserGroupService", "PolicyService"]


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningServer]:
    """A server without any configuration."""
    with running_server() as started:
        yield started


@pytest.mark.parametrize(
    ("partition", "acl", "printed"),
    [
        ("default", "bob", "check bob root"),
        ("two words", '"*"', "check alice root --partition 'two words'"),
    ],
)
def test_the_printed_example_is_granted(
    policy: Path, partition: str, acl: str, printed: str
) -> None:
    policy.write_text(policy.read_text().replace("default", partition).replace("alice", acl))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with running_server("--policy", str(policy)) as server:
        assert server.example.endswith(printed)
        outcome = subprocess.run(
            [*shlex.split(server.example), "--timeout", "60"],
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("allowed: ")


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with (
        running_server(listen=[f"unix:{path}"]),
        queuegate.Client(f"unix:{path}", timeout=60) as client,
    ):
        assert client.check("alice", "root.sandbox")
    assert not path.exists()


def test_without_any_configuration(plain: RunningServer) -> None:
    with queuegate.Client(plain.address, timeout=60) as client:
        assert client.check("anybody", "root.sandbox.x").reason == "wildcard"
        assert not client.check("anybody", "root")
        assert not client.check("anybody", "root.sandbox", access="admin")
        policy = client.get_policy()
        assert (policy.resolver, policy.revision, policy.diagnostics) == ("none", 1, ())
        entry = plain.wait_for_log("no policy is configured; serving the embedded default")
        assert entry["level"] == "warning"


def test_a_policy_without_partitions(policy: Path) -> None:
    """No user may submit to any queue."""
    policy.write_text("partitions: []\n")
    with (
        running_server("--policy", str(policy)) as server,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        with pytest.raises(queuegate.UnknownPartition):
            client.check("alice", "root")
        (finding,) = client.validate("partitions: []\n").diagnostics
        assert "NOT_FOUND" in finding.message


def test_listens_in_several_places_at_once(tmp_path: Path, policy: Path) -> None:
    sockets = [tmp_path / "a.sock", tmp_path / "b.sock"]
    listen = ["127.0.0.1:0", "127.0.0.1:0", *(f"unix:{path}" for path in sockets)]
    with running_server("--policy", str(policy), listen=listen) as server:
        first, second, *others = (
            server.wait_for_log("listening", count=count)["address"]
            for count in range(1, len(listen) + 1)
        )
        assert first.startswith("127.0.0.1:")
        assert second.startswith("127.0.0.1:")
        assert len({first, second, "127.0.0.1:0"}) == 3
        for address in (first, second, *others):
            with queuegate.Client(address, timeout=60) as client:
                assert client.check("alice", "root.x")
        for path in sockets:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not any(path.exists() for path in sockets)


def test_mode_of_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    listen = f'listen=[{{address: "unix:{path}", mode: "0600"}}]'
    with running_server("--set", listen, listen=()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_sighup_before_the_start_is_over_does_not_end_the_server(tmp_path: Path) -> None:
    pipe = tmp_path / "queuegate.yaml"
    os.mkfifo(pipe)
    command = [*server_command("serve"), "--config", str(pipe), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            # Open once the server reads its settings, and waits for them.
            with pipe.open("w") as settings:
                process.send_signal(signal.SIGHUP)
                settings.write("reflection: true\n")
            assert process.stdout is not None
            assert process.stdout.readline().startswith("serving ")
        finally:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_command_that_cannot_write(policy: Path) -> None:
    policy.write_text("partitions: 5")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            server_command("validate", str(policy)),
            stdout=full,
            stderr=full,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2


def test_health_by_service(plain: RunningServer) -> None:
    with (
        queuegate.Client(plain.address, timeout=60) as client,
        grpc.insecure_channel(plain.address) as channel,
    ):
        assert client.check_health()
        for service in SERVICES:
            assert client.check_health(f"queuegate.v1.{service}")
        assert client.check_health("queuegate.v1.NoService") == "service_unknown"
        stub = health_pb2_grpc.HealthStub(channel)
        unknown = health_pb2.HealthCheckRequest(service="queuegate.v1.NoService")
        watching = stub.Watch(unknown, timeout=60)
        assert next(watching).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watching.cancel()


def test_reflection_lists_the_services(plain: RunningServer) -> None:
    with grpc.insecure_channel(plain.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services >= {f"queuegate.v1.{service}" for service in SERVICES}
        assert services >= {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
        file = database.FindFileContainingSymbol("queuegate.v1.AccessService")
        assert file.name == "queuegate/v1/access.proto"


def test_as_many_open_files_as_the_system_allows() -> None:
    """A warning is logged if the limit is lower than that on connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    countable = 0 < hard < 1_000_000
    try:
        with running_server(
            "--set", f"limits.connections.most={hard + 1 if countable else 1}"
        ) as server:
            limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert limits == (hard, hard)
    logged = [entry["open_files"] for entry in server.logs if "open_files" in entry]
    assert logged == ([hard] if countable else [])
