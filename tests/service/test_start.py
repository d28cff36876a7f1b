"""How a server starts, and how it says that it cannot."""

import os
import resource
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

import queuegate
from queuegate_server.cli.serve import serve
from tests.running import RunningServer, running_server, server_command
from tests.scripted_directory import ScriptedDirectory, settings_file

SERVICES = ["AccessService", "UserGroupService", "PolicyService"]
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: alice
"""


def failing_start(
    *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Start a server that does not come up; return exit status, stdout and stderr."""
    finished = subprocess.run(
        server_command("serve", *arguments),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    return finished.returncode, finished.stdout, finished.stderr


def failing_command(*arguments: str) -> tuple[int, str, str]:
    """Do the same in this process, for faults that are found before anything starts."""
    result = CliRunner().invoke(serve, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def assert_says(outcome: tuple[int, str, str], *expected: str) -> None:
    """Check that a start failed with one message, and what is in it."""
    status, stdout, stderr = outcome
    assert status == 2, outcome
    assert stdout == ""
    for text in expected:
        assert text in stderr
    assert stderr.startswith("Error: ")
    assert stderr.count("\nError: ") == 0
    for noise in ("Traceback", '"event"', "grpc", "asyncio", "last good"):
        assert noise not in stderr
    assert len(stderr.splitlines()) <= 3


@pytest.fixture(scope="module")
def plain() -> Iterator[RunningServer]:
    """A server without any configuration."""
    with running_server() as started:
        yield started


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "queues.yaml"
    path.write_text(POLICY)
    return path


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
    policy.write_text(POLICY.replace("default", partition).replace("alice", acl))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with running_server("--policy", str(policy)) as server:
        assert server.example.endswith(printed)
        outcome = subprocess.run(
            shlex.split(server.example),
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("allowed: ")


def test_port_taken() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_says(failing_start("--listen", address), address, "in use")


def test_port_taken_by_another_server(plain: RunningServer) -> None:
    """Two servers on one port would answer from two policies."""
    assert_says(failing_start("--listen", plain.address), plain.address, "in use")
    with queuegate.Client(plain.address) as client:
        assert client.check("alice", "root.sandbox")


def test_bad_policy(policy: Path) -> None:
    policy.write_text(POLICY.replace("submitacl: alice", "submitacl: a b c"))
    listen = f"unix:{policy.parent}/q.sock"
    outcome = failing_start("--policy", str(policy), "--listen", listen)
    assert_says(outcome, f"\n{policy}:5:20: error: ")
    assert not (policy.parent / "q.sock").exists()


def test_policy_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    outcome = failing_start("--policy", str(missing), "--listen", "127.0.0.1:0")
    assert_says(outcome, f"\n{missing}: error: cannot be read: No such file or directory (check")


def test_policy_is_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = failing_start("--policy", str(pipe), "--listen", "127.0.0.1:0")
    assert_says(outcome, f"\n{pipe}: error: cannot be read: not a regular file (check")


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("unix:/no/such/folder/q.sock", "/no/such/folder"),
        ('[{"address": "203.0.113.1:50051", "insecure": true}]', "203.0.113.1"),
    ],
)
def test_address_cannot_be_used(address: str, remedy: str) -> None:
    assert_says(failing_start("--set", f"listen={address}"), "cannot listen on", remedy)


def test_socket_of_a_running_server_is_left_alone(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/q.sock"
    with running_server(listen=[address]), queuegate.Client(address) as client:
        assert_says(failing_start("--listen", address), address, "another server")
        assert client.check("alice", "root.sandbox")


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    path.write_text("precious")
    assert_says(failing_start("--listen", f"unix:{path}"), "not a socket")
    assert path.read_text() == "precious"


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    with running_server(listen=[f"unix:{path}"]), queuegate.Client(f"unix:{path}") as client:
        assert client.check("alice", "root.sandbox")
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "drain.graze=1s"], "drain.graze"),
        (["--set", "drain.grace=fast"], "drain.grace"),
        (["--set", "drain.grace"], "key=value"),
        (["--set", "listen=[]"], "listen"),
        (["--listen", "localhost"], "--set listen: error: listen[0]: 'localhost': use host:port"),
        (["--set", "unix_socket_mode=rw"], "unix_socket_mode"),
        (["--set", "limits.max_concurrent_calls=0"], "max_concurrent_calls"),
        (["--set", "policy.format=json"], "policy.format"),
        (["--set", "resolvers.corp.type=lpad"], "resolvers.corp.type"),
        (["--set", "partitions.default.cache.max_stale=-1s"], "max_stale"),
        (["--config", "/no/such/queuegate.yaml"], "/no/such/queuegate.yaml: error: cannot be read"),
    ],
    ids=lambda case: str(case[-1]),
)
def test_wrong_option(options: list[str], expected: str) -> None:
    assert_says(failing_command(*options), expected)


def test_wrong_settings() -> None:
    outcome = failing_start("--set", "drain.graze=1s", environment={"QUEUEGATE_LISTN": "x"})
    assert_says(outcome, "drain.graze", "QUEUEGATE_LISTN")


def test_every_fault_of_the_settings_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "queuegate.yaml"
    path.write_text("listn: [x]\ndrain:\n  grace: soon\n")
    outcome = failing_command("--config", str(path))
    assert_says(outcome, f"{path}:1:1: error: ", f"{path}:3:10: error: ")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"partitions": {"default": {"resolver": "corp"}}}, "corp"),
        ({"resolvers": {"corp": {"type": "ldpa"}}}, "ldpa"),
        ({"resolvers": {"corp": {"type": "scripted"}}}, "folder"),
        ({"resolvers": {"corp": {"type": "broken"}}}, "no_such_module"),
    ],
    ids=["undefined", "unknown type", "missing option", "broken"],
)
def test_wrong_resolver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], expected: str
) -> None:
    monkeypatch.syspath_prepend(str(ScriptedDirectory(tmp_path).installed))
    path = settings_file(tmp_path, settings)
    assert_says(failing_command("--config", path), f"{path}:1:", expected)


def test_resolver_that_cannot_be_opened(tmp_path: Path) -> None:
    directory = ScriptedDirectory(tmp_path)
    settings = {
        "resolvers": {"corp": {"type": "unopenable"}},
        "partitions": {"default": {"resolver": "corp"}},
    }
    options = ("--config", settings_file(tmp_path, settings), "--listen", "127.0.0.1:0")
    outcome = failing_start(*options, environment=directory.environment)
    assert_says(
        outcome,
        "settings: error: partition 'default' uses the resolver 'corp', which cannot be opened: ",
        "the licence has run out (correct `resolvers.corp`, or set `partitions.default.resolver`",
    )


def test_resolver_that_the_policy_asks_for_and_nobody_has_set_up(policy: Path) -> None:
    """Each partition that asks is told of, at its own line."""
    asks = "    usergroupresolver:\n      type: ldap\n"
    gpu = POLICY.replace("partitions:\n", "").replace("default", "gpu")
    policy.write_text(POLICY + asks + gpu + asks)
    outcome = failing_start("--policy", str(policy), "--listen", "127.0.0.1:0")
    lines = len(POLICY.splitlines())
    assert_says(
        outcome,
        f"\n{policy}:{lines + 2}:13: error: partition 'default' asks for the resolver type 'ldap'",
        "(add it to `resolvers` and name it in `partitions.default.resolver`)",
        f"\n{policy}:{2 * lines + 3}:13: error: partition 'gpu' asks for",
    )


def test_without_any_configuration(plain: RunningServer) -> None:
    with queuegate.Client(plain.address) as client:
        assert client.check("anybody", "root.sandbox.x").reason == "wildcard"
        assert not client.check("anybody", "root")
        assert not client.check("anybody", "root.sandbox", access="admin")
        policy = client.policy()
        assert (policy.resolver, policy.revision, policy.diagnostics) == ("none", 1, ())
        entry = plain.wait_for_log("no policy is configured; serving the embedded default")
        assert entry["level"] == "warning"


def test_a_policy_without_partitions(policy: Path) -> None:
    """It opens no queue to anybody."""
    policy.write_text("partitions: []\n")
    with (
        running_server("--policy", str(policy)) as server,
        queuegate.Client(server.address) as client,
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
            with queuegate.Client(address) as client:
                assert client.check("alice", "root.x")
        for path in sockets:
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not any(path.exists() for path in sockets)


def test_mode_of_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    with running_server("--set", "unix_socket_mode=0600", listen=[f"unix:{path}"]):
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
            process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_command_that_cannot_write(policy: Path) -> None:
    policy.write_text("partitions: 5")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            server_command("validate", str(policy)),
            stdout=full,
            stderr=full,
            timeout=30,
            check=False,
        )
    assert ended.returncode == 2


def test_health_by_service(plain: RunningServer) -> None:
    with (
        queuegate.Client(plain.address) as client,
        grpc.insecure_channel(plain.address) as channel,
    ):
        assert client.health()
        for service in SERVICES:
            assert client.health(f"queuegate.v1.{service}")
        assert client.health("queuegate.v1.NoService") == "service_unknown"
        stub = health_pb2_grpc.HealthStub(channel)
        unknown = health_pb2.HealthCheckRequest(service="queuegate.v1.NoService")
        watching = stub.Watch(unknown, timeout=20)
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
    """And it is told if that is fewer than there may be connections."""
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
    told = [entry["open_files"] for entry in server.logs if "open_files" in entry]
    assert told == ([hard] if countable else [])
