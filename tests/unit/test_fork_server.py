"""Forked servers are like those that start with an interpreter of their own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes.notify_socket import NotifySocket
from tests.support.servers.fork_server import ForkedProcess, ForkServer
from tests.support.servers.queuegate_server import first_line, server_command


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def start(server: ForkServer, *arguments: str, **variables: str) -> ForkedProcess:
    process = server.start(arguments, {**os.environ, **variables})
    assert process is not None
    return process


def ended(process: ForkedProcess) -> tuple[str, str, int]:
    assert process.stdout
    assert process.stderr
    with process.stdout, process.stderr:
        return process.stdout.read(), process.stderr.read(), process.wait(60)


@pytest.mark.parametrize("arguments", [("--version",), ("serve", "--listen", "nowhere"), ("x",)])
def test_output_and_status_are_the_same(
    fork_server: ForkServer, arguments: tuple[str, ...]
) -> None:
    command = server_command(*arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    expected = (done.stdout, done.stderr, done.returncode)
    assert ended(start(fork_server, *arguments)) == expected


def test_the_variables_and_the_folder_are_those_of_the_start(
    fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "queues.yaml").write_text("partitions: [{name: default, queues: [{name: root}]}]")
    monkeypatch.chdir(tmp_path)
    command = ("serve", "--policy", "queues.yaml", "--listen", "127.0.0.1:0")
    with NotifySocket(str(tmp_path / "notify")) as manager:
        process = start(fork_server, *command, **manager.environment)
        assert first_line(process).startswith("serving queues.yaml on 127.0.0.1:")
        manager.wait_for("READY=1")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert ended(process)[2] == 0


def test_signals(fork_server: ForkServer) -> None:
    process = start(
        fork_server, "serve", "--policy", "examples/queues.yaml", "--listen", "127.0.0.1:0"
    )
    first_line(process)
    process.kill()
    assert ended(process)[2] == -signal.SIGKILL
    assert process.poll() == -signal.SIGKILL
    process.kill()  # has no effect on whatever process has the ID now


@pytest.mark.parametrize("name", ["LD_PRELOAD", "GRPC_VERBOSITY", "PYTHONHASHSEED", "TZ"])
def test_variables_that_imports_read_are_refused(fork_server: ForkServer, name: str) -> None:
    assert fork_server.start(["--version"], {**os.environ, name: "1"}) is None
