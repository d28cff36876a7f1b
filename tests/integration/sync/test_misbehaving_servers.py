"""Gates beside servers that break the protocol, take nothing, or refuse reports."""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate import GateState
from queuegate.gate.reflector import MAX_WAITING
from queuegate.v1 import sync_pb2
from tests.support.eventually import eventually
from tests.support.gates import KINDS, live_gate
from tests.support.servers.scripted_sync import (
    Requests,
    Responses,
    opened,
    part,
    scripted_sync,
)


def question(user: str) -> tuple[str, str, str, str, None, str]:
    return (user, "root", "default", "submit", None, "")


def takes_nothing(_requests: Requests, context: grpc.ServicerContext) -> Responses:
    """Send for ever, and read no message."""
    yield opened()
    yield part()
    while context.is_active():
        yield sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=1))
        time.sleep(0.2)  # the gate's clock is what is tested


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_takes_nothing_is_left(kind: str) -> None:
    with scripted_sync(takes_nothing) as server:
        gate = KINDS[kind](server.address)
        eventually(lambda: gate.state, GateState.EXPIRED)
        for number in range(MAX_WAITING):
            assert gate._decider.decide(question(f"{number:0256}")) is None
        eventually(lambda: gate.state, GateState.LIVE)
        assert server.streams == 2
        assert gate._decider.decide(question("alice"))
        gate.close()


def only_pongs(requests: Requests, _context: grpc.ServicerContext) -> Responses:
    """Answer pings, and send no policy."""
    for request in requests:
        if request.HasField("open"):
            yield opened()
        elif request.HasField("ping"):
            yield sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=request.ping.id))


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_sends_no_policy_is_left(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with scripted_sync(only_pongs) as server, live_gate(server.address, kind) as gate:
        assert server.streams == 2
        assert "responds to pings but has sent no complete policy for 3 s" in caplog.text
        assert gate._decider.decide(question("alice"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_closes_while_its_server_takes_nothing(kind: str) -> None:
    with scripted_sync(takes_nothing, takes_nothing) as server:
        gate = KINDS[kind](server.address)
        eventually(lambda: gate.state, GateState.EXPIRED)
        for number in range(MAX_WAITING):
            gate._decider.decide(question(f"{number:0256}"))
        gate.close()
        eventually(gates_threads, NONE)


NONE: list[str] = []


def gates_threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("queuegate-gate")]


BROKEN: dict[str, Callable[[], Any]] = {
    "the first message must be `opened`": part,
    "must have a lease and a ping interval": lambda: opened(lease_millis=0),
    "must have a lease and a ping": lambda: opened(ping_interval_millis=0),
    "are incomplete": lambda: sync_pb2.SyncResponse(
        policy=sync_pb2.PolicyPart(partition="default", last=True)
    ),
    "has fields of the first part": lambda: part(first=False),
    "this gate does not have it": lambda: part(unchanged=True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", BROKEN)
def test_a_message_that_breaks_the_protocol_ends_the_stream(
    fault: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = BROKEN[fault]()

    def breaks(requests: Requests, _context: grpc.ServicerContext) -> Responses:
        next(requests)
        if broken.HasField("policy") and fault != "the first message must be `opened`":
            yield opened()
        yield broken
        yield from ()

    with scripted_sync(breaks) as server, live_gate(server.address, kind) as gate:
        assert gate._decider.decide(question("alice"))
        assert fault in caplog.text
        [again] = server.opens
        assert not again.held
        assert not again.resume.epoch


@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_in_on_change_is_logged(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    with scripted_sync() as server, live_gate(server.address, kind, on_change=fails) as gate:
        eventually(lambda: "a gate's on_change callback failed" in caplog.text, True)
        server.changed.set()
        eventually(lambda: caplog.text.count("a gate's on_change callback failed"), 2)
        assert gate.state is GateState.LIVE


def test_on_change_does_not_hold_up_the_lease() -> None:
    calls: list[str] = []
    blocked = threading.Event()

    def blocks() -> None:
        calls.append(threading.current_thread().name)
        blocked.wait(60)

    with (
        scripted_sync(lease_millis=1_000) as server,
        live_gate(server.address, on_change=blocks) as gate,
    ):
        eventually(lambda: calls, ["queuegate-gate-on_change"])
        end = time.monotonic() + 2
        changes = 0
        while time.monotonic() < end or changes < 10:
            changes += 1
            server.changed.set()
            eventually(server.changed.is_set, False)
        eventually(lambda: gate.state, GateState.LIVE)
        blocked.set()
        eventually(lambda: len(calls) > 1, True)
        # One call for all that were waiting, and one for a change that was on its way.
        assert len(calls) <= 3


def test_on_change_may_close_the_gate() -> None:
    gates: list[queuegate.Gate] = []
    given = threading.Event()

    def closes() -> None:
        given.wait(60)
        gates[0].close()

    with scripted_sync() as server:
        gates.append(queuegate.Gate(server.address, on_change=closes))
        given.set()
        eventually(lambda: gates[0].state, GateState.CLOSED)
        eventually(gates_threads, NONE)


def descriptors_open() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Fail if a test leaves files open."""
    gc.collect()
    before = descriptors_open()
    yield
    gc.collect()
    eventually(lambda: descriptors_open() <= before, True)


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ValueError, {"name": "x" * 257}),
        (ValueError, {"name": "a\nb"}),
        (TypeError, {"partitions": "default"}),
        (ValueError, {"stale": -1}),
        (ValueError, {"timeout": 0}),
        (ValueError, {"address": "no address"}),
        (OSError, {"token_file": "/no/such/file"}),
    ],
)
@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_a_gate_that_cannot_be_created_leaves_nothing(
    kind: str, error: type[Exception], arguments: dict[str, Any], tmp_path: Path
) -> None:
    create = queuegate.Gate if kind == "blocking" else queuegate.aio.Gate
    with pytest.raises(error):
        create(**{"address": "127.0.0.1:1", **arguments})
    assert gates_threads() == []
    usable = create("127.0.0.1:1")
    closed = usable.close()
    if closed is not None:
        await closed


def test_threads_that_cannot_be_started_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def fails(thread: threading.Thread) -> None:
        if thread.name == "queuegate-gate-watchdog":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    with pytest.raises(RuntimeError, match="new thread"):
        queuegate.Gate("127.0.0.1:1")
    eventually(gates_threads, NONE)
    monkeypatch.undo()
    queuegate.Gate("127.0.0.1:1").close()
