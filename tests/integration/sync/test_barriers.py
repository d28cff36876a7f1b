"""After a barrier, no gate decides from the state before the change."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate import Cursor
from queuegate.cli import main
from tests.support.child_gate import child_gate
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.gates import KINDS, decides_itself, learn, live_gate
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server
from tests.support.servers.two_partitions import (
    POLICY,
    SharedServer,
    client_without_retries,
    two_partitions,
)
from tests.support.sync_stream import SyncStream

LEASE = 5.0


@pytest.fixture
def own_directory(tmp_path: Path) -> ScriptedDirectory:
    scripted = ScriptedDirectory(tmp_path)
    scripted.answer({"sam": {"groups": ["staff"]}})
    return scripted


@pytest.fixture
def server(shared: SharedServer, directory: ScriptedDirectory) -> RunningServer:
    """The server that the tests share, with the policy that it began with."""
    (directory.folder / "queues.yaml").write_text(POLICY)
    return shared.server


@pytest.fixture
def client(server: RunningServer) -> Iterator[queuegate.Client]:
    with client_without_retries(server) as opened:
        # All leases of the process before this one, and of the tests before, have ended.
        assert opened.reload(wait=True).succeeded
        yield opened


@pytest.mark.parametrize("kind", KINDS)
def test_an_invalidation(
    kind: str, server: RunningServer, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    with live_gate(server.address, kind) as gate:
        for groups, expected in (([], False), (["staff"], True), ([], False)):
            learn(gate, "sam")
            directory.answer({"sam": {"groups": groups}})
            result = client.invalidate(["sam"], wait=True)
            assert (result.dropped, result.waited_out) == (1, ())
            assert gate.check("sam", "root.work").allowed is expected
        learn(gate, "sam")
        directory.answer({"sam": {"groups": ["staff"]}})
        assert client.invalidate(wait=True).waited_out == ()
        assert gate.check("sam", "root.work").allowed


@pytest.mark.parametrize("kind", KINDS)
def test_a_reload(
    kind: str, server: RunningServer, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    path = directory.folder / "queues.yaml"
    with live_gate(server.address, kind) as gate:
        for user in ("bob", "alice", "bob"):
            path.write_text(POLICY.replace("alice staff", f"{user} staff"))
            result = client.reload(wait=True)
            assert result.succeeded
            assert result.waited_out == ()
            before = gate.decided
            assert gate.check(user, "root.work").policy_revision == result.revision
            assert gate.decided == before + 1


def test_a_gate_that_hangs_is_waited_out(
    server: RunningServer, client: queuegate.Client, directory: ScriptedDirectory
) -> None:
    with child_gate(server.address) as child:
        eventually(lambda: child.ask("sam", "root.work"), ["True", "True"])
        child.freeze()
        directory.answer({"sam": {"groups": []}})
        begin = time.monotonic()
        try:
            assert client.invalidate(["sam"], wait=True).waited_out == ("the child",)
            assert time.monotonic() - begin < LEASE + 30
        finally:
            child.send(signal.SIGCONT)
        assert child.ask("sam", "root.work")[0] == "False"
        eventually(lambda: child.ask("sam", "root.work"), ["False", "True"])


def leave(server: RunningServer, stale_millis: int) -> None:
    """Be a gate that goes away with a lease, and may use its last state for some time."""
    with grpc.insecure_channel(server.address) as channel:
        stream = SyncStream(channel)
        stream.open(name="away", stale_millis=stale_millis)
        stream.lease()
        stream.close()


def test_a_gate_that_may_use_its_last_state_is_named(
    own_directory: ScriptedDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_partitions(own_directory) as server, client_without_retries(server) as client:
        assert client.reload(wait=True).succeeded
        leave(server, stale_millis=300_000)
        assert client.invalidate(["sam"], wait=True).waited_out == ("away",)
        # Its lease has ended before the next change.
        result = client.reload(wait=True)
        assert result.waited_out == ()
        [gate] = result.stale_gates
        assert gate.name == "away"
        assert 0 < gate.seconds < 310  # clocks may drift
        assert main(["invalidate", "sam", "--wait", "--address", server.address]) == 1
        shown = capsys.readouterr()
        assert (
            "away did not confirm; while it cannot reach a server, it may use groups from"
            in shown.out
        )
        assert "no other shim or server still uses groups from before the call" in shown.out
        assert "gates with `stale` may still use groups from before the call: wait" in shown.err
        assert main(["-o", "json", "reload", "--wait", "--address", server.address]) == 1
        [named] = json.loads(capsys.readouterr().out)["stale_gates"]
        assert named["name"] == "away"


def test_a_gate_whose_last_state_has_ended_is_not_named(
    server: RunningServer, client: queuegate.Client
) -> None:
    leave(server, stale_millis=1_000)
    assert client.invalidate(["sam"], wait=True).waited_out == ("away",)
    eventually(lambda: len(client.reload(wait=True).stale_gates), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_that_is_closed_is_not_named(
    kind: str, server: RunningServer, client: queuegate.Client
) -> None:
    with live_gate(server.address, kind, stale=60):
        assert client.reload(wait=True).stale_gates == ()
    result = client.reload(wait=True)
    assert (result.waited_out, result.stale_gates) == ((), ())


async def test_calls_that_wait_at_once_and_are_cancelled(
    server: RunningServer, directory: ScriptedDirectory
) -> None:
    with child_gate(server.address) as child:
        async with (
            queuegate.aio.Client(server.address, timeout=60) as client,
            queuegate.aio.Client(server.address, timeout=60) as other,
        ):
            await client.invalidate(wait=True)
            eventually(partial(child.ask, "sam", "root.work"), ["True", "True"])
            child.freeze()
            directory.answer({"sam": {"groups": []}})
            calls = [asyncio.create_task(client.invalidate(["sam"], wait=True)) for _ in range(300)]
            while (await other.resolve("sam")).cached:
                pass  # until the server has carried out the first
            for call in calls[::2]:
                call.cancel()
            results = await asyncio.gather(*calls[1::2])
            assert all(result.waited_out in {(), ("the child",)} for result in results)
            assert any(result.waited_out for result in results)
            # Nothing is left of the calls that were cancelled.
            assert (await client.invalidate(["sam"], wait=True)).waited_out == ()
        child.send(signal.SIGCONT)
        assert child.ask("sam", "root.work")[0] == "False"


def test_a_gate_that_was_killed_is_waited_out(
    server: RunningServer, client: queuegate.Client
) -> None:
    with child_gate(server.address) as child:
        eventually(lambda: child.ask("alice", "root.work"), ["True", "True"])
        child.send(signal.SIGKILL)
        assert client.invalidate(["sam"], wait=True).waited_out in {("the child",), ()}


def test_gates_of_the_process_before_are_waited_out(own_directory: ScriptedDirectory) -> None:
    with two_partitions(own_directory) as server, client_without_retries(server) as asking:
        [who] = asking.invalidate(["sam"], wait=True).waited_out
        assert "previous process" in who
        assert asking.invalidate(["sam"], wait=True).waited_out == ()


def test_a_check_can_demand_a_change(server: RunningServer, client: queuegate.Client) -> None:
    cursors = [client.invalidate(["sam"]).cursor, client.reload().cursor]
    for cursor in cursors:
        assert cursor is not None
        assert client.check("alice", "root.work", at_least=cursor)
    [known, _] = cursors
    assert known is not None
    for unknown in (
        Cursor(os.urandom(16), 0),
        Cursor(known.epoch, known.sequence + 1_000),
        Cursor(b"", 0),
    ):
        with pytest.raises(
            queuegate.ServerUnavailable, match="does not know of that change"
        ) as failed:
            client.check("alice", "root.work", at_least=unknown)
        assert failed.value.reason == "NOT_CAUGHT_UP"


_QUEUES = ", ".join(f"{{name: q{number}, submitacl: alice b{number}}}" for number in range(40_000))
LARGE = f"partitions: [{{name: default, queues: [{{name: root, queues: [{_QUEUES}]}}]}}]"


def test_a_restarted_server_sends_no_policy_that_a_gate_holds(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(LARGE)
    address = f"127.0.0.1:{free_port()}"
    arguments = ("--policy", str(path), *ADMIN, *LISTEN)

    def parts(server: RunningServer) -> float:
        return value(ops_address(server), "queuegate_sync_messages_total", "policy")

    with running_server(*arguments, listen=[address]) as first:
        opened = queuegate.Gate(address, timeout=60)
        eventually(lambda: opened.state, queuegate.GateState.LIVE)
        assert parts(first) > 1
    with running_server(*arguments, listen=[address]) as second, opened:
        eventually(lambda: parts(second), 1.0)
        assert opened.resets == 1
        eventually(lambda: decides_itself(opened, "alice", "root.q39999"), expected=True)
