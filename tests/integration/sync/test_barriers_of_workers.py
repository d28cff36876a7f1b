"""After a barrier, no gate decides from the state before it, whichever worker the gate follows."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

import queuegate
from tests.support.child_gate import child_gate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory, settings_file
from tests.support.gates import learn
from tests.support.servers.queuegate_server import RunningServer
from tests.support.servers.two_partitions import POLICY, client_without_retries
from tests.support.servers.workers import WORKERS, pids, several_workers


@pytest.fixture
def own_directory(tmp_path: Path) -> ScriptedDirectory:
    scripted = ScriptedDirectory(tmp_path)
    scripted.answer({"sam": {"groups": ["staff"]}})
    return scripted


@contextmanager
def workers(directory: ScriptedDirectory) -> Iterator[RunningServer]:
    """Run several workers, when the leases of the processes before have ended."""
    path = directory.folder / "queues.yaml"
    path.write_text(POLICY)
    settings = {
        "policy": {"path": str(path)},
        "resolvers": {"corp": directory.resolver()},
        "partitions": {"default": {"resolver": "corp"}},
    }
    config = settings_file(directory.folder, settings)
    with (
        several_workers("--config", config, environment=directory.environment) as server,
        client_without_retries(server) as client,
    ):
        client.invalidate(wait=True)
        yield server


def test_several_workers(own_directory: ScriptedDirectory) -> None:
    with workers(own_directory) as server, client_without_retries(server) as client:
        gates = [queuegate.Gate(server.address, timeout=60) for _ in range(3 * WORKERS)]
        try:
            for gate in gates:
                learn(gate, "sam")
            own_directory.answer({"sam": {"groups": []}})
            result = client.invalidate(["sam"], wait=True)
            assert result.waited_out == ()
            assert not any(gate.check("sam", "root.work") for gate in gates)
            for gate in gates:
                assert gate.check("alice", "root.work", at_least=result.cursor)
        finally:
            for gate in gates:
                gate.close()


def test_a_worker_that_is_killed_leaves_leases(own_directory: ScriptedDirectory) -> None:
    """The gates of the killed worker hang, so they keep its leases: they must be waited out."""
    with (
        workers(own_directory) as server,
        client_without_retries(server) as client,
        ExitStack() as stack,
    ):
        # That all connections are with the worker that lives on has a chance of 1 to 1,024.
        children = [stack.enter_context(child_gate(server.address)) for _ in range(10)]
        for child in children:
            eventually(partial(child.ask, "sam", "root.work"), ["True", "True"])
            child.freeze()
        try:
            os.kill(pids(server)[0], signal.SIGKILL)
            own_directory.answer({"sam": {"groups": []}})

            def is_invalidated() -> bool:
                try:
                    client.invalidate(["sam"], wait=True)
                except queuegate.Unavailable:  # the connection was with that worker
                    return False
                return True

            eventually(is_invalidated, expected=True)
        finally:
            for child in children:
                child.send(signal.SIGCONT)
        for child in children:
            assert child.ask("sam", "root.work")[0] == "False"
