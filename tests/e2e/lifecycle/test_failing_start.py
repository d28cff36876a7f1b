"""Servers that cannot start print one message with the error and its location."""

import os
import socket
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import queuegate
from queuegate_server.cli.serve import serve
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.rows import rows
from tests.support.servers.queuegate_server import running_server, server_command


def failing_start(
    *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Start a server that does not come up; return exit status, stdout and stderr."""
    finished = subprocess.run(
        server_command("serve", *arguments),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    return finished.returncode, finished.stdout, finished.stderr


def failing_command(*arguments: str) -> tuple[int, str, str]:
    """Do the same in this process, for errors that are found before anything starts."""
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
    assert len(stderr.splitlines()) <= 5


def test_port_taken() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = failing_start("--listen", address)
        assert_says(outcome, f"cannot listen on '{address}'", "another process is listening")


def test_a_policy_without_its_option() -> None:
    status, _, stderr = failing_command("queues.yaml")
    assert status == 2
    assert stderr.endswith(
        "pass a policy as --policy queues.yaml, settings as --config queues.yaml\n"
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_port_taken_on_one_address_of_a_name(workers: int) -> None:
    """Clients that connect by name could reach either server."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        outcome = failing_start("--listen", address, "--set", f"workers={workers}")
        assert_says(outcome, address, "in use (127.0.0.1)")


def test_port_taken_by_another_server() -> None:
    """Two servers on one port would answer from two policies."""
    with running_server() as server, queuegate.Client(server.address, timeout=60) as client:
        assert_says(failing_start("--listen", server.address), server.address, "in use")
        assert client.check("alice", "root.sandbox")


def test_bad_policy(policy: Path) -> None:
    policy.write_text(policy.read_text().replace("submitacl: alice", "submitacl: a b c"))
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
    with running_server(listen=[address]), queuegate.Client(address, timeout=60) as client:
        assert_says(failing_start("--listen", address), address, "another server")
        assert client.check("alice", "root.sandbox")


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "q.sock"
    path.write_text("precious")
    assert_says(failing_start("--listen", f"unix:{path}"), "not a socket")
    assert path.read_text() == "precious"


@rows
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


@rows
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
    """Each partition that asks for it is reported, at its own line."""
    asks = "    usergroupresolver:\n      type: ldap\n"
    text = policy.read_text()
    gpu = text.replace("partitions:\n", "").replace("default", "gpu")
    policy.write_text(text + asks + gpu + asks)
    outcome = failing_start("--policy", str(policy), "--listen", "127.0.0.1:0")
    lines = len(text.splitlines())
    assert_says(
        outcome,
        f"\n{policy}:{lines + 2}:13: error: partition 'default' asks for the resolver type 'ldap'",
        "(correct that, or add a resolver to `resolvers` and name it in `partitions.default.resol",
        f"\n{policy}:{2 * lines + 3}:13: error: partition 'gpu' asks for",
    )
