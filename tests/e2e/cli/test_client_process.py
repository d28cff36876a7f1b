"""`queuegate` as a process of its own: behaviour that only shows there."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuegate.v1 import policy_pb2
from tests.support.fakes.scripted_server import ScriptedServer

QUEUES = ["root", "root.a", "root.b\x1b"]
Capture = pytest.CaptureFixture[str]
PATIENT = ("--timeout", "60")
"""Where a busy machine must not decide the outcome."""


@pytest.fixture(scope="module")
def shared() -> Iterator[ScriptedServer]:
    with ScriptedServer(queues=QUEUES, health_of={"": 1, "down": 2}) as it:
        yield it


@pytest.fixture
def server(shared: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    monkeypatch.setenv("QUEUEGATE_ADDRESS", shared.address)
    shared.script.reset()
    return shared


COMMAND = [sys.executable, "-m", "queuegate", *PATIENT]


def run(*arguments: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False, **settings
    )


def test_exit_statuses_of_the_process(server: ScriptedServer) -> None:
    allowed = run("check", "alice", "root")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert run("check", "denied", "root").returncode == 1
    assert run("check", "alice").returncode == 2
    silent = run("health", env={**os.environ, "QUEUEGATE_ADDRESS": "127.0.0.1:1"})
    assert (silent.returncode, silent.stdout) == (3, "")
    # One line of ours, nothing of gRPC's own log.
    assert len(silent.stderr.splitlines()) == 1


def test_text_for_a_terminal_without_unicode(server: ScriptedServer) -> None:
    done = run("explain", "Jürgen", "root", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "J\\xfcrgen" in done.stdout
    assert "\\u2514\\u2500 submit ACL" in done.stdout


@pytest.fixture
def interrupts_end_processes() -> Iterator[None]:
    """Children begin with the default for SIGINT, also if these tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts_end_processes")
def test_interrupt(server: ScriptedServer) -> None:
    server.script.gate.clear()
    while server.script.arrived.acquire(blocking=False):
        pass
    process = subprocess.Popen(
        [*COMMAND, "check", "alice", "root"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.script.arrived.acquire(timeout=60)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


def test_a_reader_that_goes_away(server: ScriptedServer) -> None:
    answer = policy_pb2.GetPolicyResponse()
    answer.queues.extend(
        policy_pb2.PolicyQueue(path=f"root.q{number}", submit_acl="*") for number in range(20_000)
    )
    server.script.answers["GetPolicy"] = answer
    process = subprocess.Popen([*COMMAND, "policy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.read(10)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (141, b"")


def test_an_answer_that_cannot_be_written_is_none(server: ScriptedServer) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "check", "alice", "root"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == "Error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    ("closed", "user", "status"), [(">&-", "alice", 0), (">&- 2>&-", "denied", 1)]
)
def test_closed_standard_streams(
    server: ScriptedServer, closed: str, user: str, status: int
) -> None:
    line = f'"{sys.executable}" -m queuegate --timeout 20 check {user} root {closed}'
    assert subprocess.run(["sh", "-c", line], timeout=60, check=False).returncode == status


def test_health_probes_at_once(server: ScriptedServer) -> None:
    """As a container runtime may do: many probes, none leaves anything behind."""
    done: list[int] = []

    def probe() -> None:
        done.append(run("health").returncode)

    threads = [threading.Thread(target=probe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [0] * 4
