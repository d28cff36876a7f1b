"""The process ends under load: it is killed, asked to end, or ends itself because it hangs."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.resilience import stalling_loop
from tests.resilience.invariants import Record, under_load
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server


@pytest.fixture
def server(policy_file: Path) -> Iterator[RunningServer]:
    """A server at a port that nobody else gets while it is away."""
    address = f"127.0.0.1:{free_port()}"
    with running_server("--policy", str(policy_file), listen=[address]) as started:
        yield started


def test_kill_and_restart(server: RunningServer, policy_file: Path, record: Record) -> None:
    again = running_server("--policy", str(policy_file), listen=[server.address])
    with ExitStack() as stack, under_load(server, record) as fault:
        server.process.kill()
        server.process.wait()
        with fault.expected_to_serve():
            fault.server = stack.enter_context(again)
    # Callers that tried again within their deadline saw nothing of it.
    assert set(fault.outcomes) <= {"answered", "ServerUnavailable", "DeadlineExceeded"}


def test_sigterm(server: RunningServer, policy_file: Path, record: Record) -> None:
    """As a rolling restart on one port: the next process starts when the first has ended."""
    again = running_server("--policy", str(policy_file), listen=[server.address])
    with ExitStack() as stack, under_load(server, record) as fault:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        with fault.expected_to_serve():
            fault.server = stack.enter_context(again)
    assert set(fault.outcomes) <= {"answered", "ServerUnavailable", "DeadlineExceeded"}


def test_event_loop_stands_still(policy_file: Path, record: Record) -> None:
    """The watchdog ends the process, so that its supervisor can start the next one."""
    arguments = ("--policy", str(policy_file))
    listen = [f"127.0.0.1:{free_port()}"]
    program = Path(stalling_loop.__file__)
    with running_server(*arguments, listen=listen, program=program) as server, ExitStack() as stack:
        again = running_server(*arguments, listen=listen)
        with under_load(server, record) as fault:
            server.process.send_signal(signal.SIGUSR1)
            assert server.process.wait(60) == -signal.SIGABRT
            with fault.expected_to_serve():
                fault.server = stack.enter_context(again)
    assert "The event loop has not run for a long time; this process ends itself." in "".join(
        server.errors
    )
    assert set(fault.outcomes) <= {"answered", "ServerUnavailable", "DeadlineExceeded"}
