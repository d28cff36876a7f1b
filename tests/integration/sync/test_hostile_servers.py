"""Gates beside servers that send what no server of ours sends: the gate asks, and says why."""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from queuegate import GateState
from queuegate.gate import bounds
from queuegate.v1 import access_pb2, sync_pb2
from queuegate_server.rpc.errors import RateLimited, to_status
from tests.support.eventually import eventually
from tests.support.gates import KINDS, live_gate
from tests.support.hostile_tables import HOSTILE_TABLES, faulty
from tests.support.servers.scripted_sync import (
    Requests,
    Responses,
    Script,
    ScriptedSync,
    opened,
    part,
    scripted_sync,
)

ALICE = ("alice", "root", "default", "submit", None, "")
MIB = 1 << 20


def nothing_more() -> Responses:
    yield part()


def endless(**tables: Any) -> Responses:
    """Send the same rows again and again, as parts of one policy."""
    yield part(last=False)
    while True:
        more = sync_pb2.PolicyPart(partition="default", **tables)
        yield sync_pb2.SyncResponse(policy=more)


def endless_queues() -> Responses:
    yield part(last=False)
    for first in itertools.count(1, 10_000):
        columns = sync_pb2.QueueColumns(
            parent=range(first, first + 10_000),
            name=[f"q{each}" for each in range(first, first + 10_000)],
            submit=[0] * 10_000,
            admin=[0] * 10_000,
        )
        more = sync_pb2.PolicyPart(partition="default", configured_queues=columns)
        yield sync_pb2.SyncResponse(policy=more)


def endless_partitions() -> Responses:
    for number in itertools.count():
        yield part(f"p{number}", names=[f"{number}" * 20_000])


def endless_chain() -> Responses:
    ones, nobody = [1] * 100_000, [0] * 100_000
    return endless(
        levels=sync_pb2.LevelColumns(
            above=ones, depth=ones, users=nobody, groups=nobody, services=nobody
        )
    )


def endless_levels() -> Responses:
    ones, nobody = [1] * 100_000, [0] * 100_000
    reasons = [access_pb2.REASON_NO_MATCH] * 100_000
    return endless(
        levels=sync_pb2.LevelColumns(
            above=nobody,
            depth=ones,
            users=nobody,
            groups=nobody,
            services=nobody,
            end_reasons=reasons,
        )
    )


def endless_line() -> Responses:
    """Queues one below the other: a few bytes stand for a path of any length."""
    ones, level = [1] * 1_000, [0] * 1_000
    return endless(
        configured_queues=sync_pb2.QueueColumns(
            parent=ones, name=["a"] * 1_000, submit=level, admin=level
        )
    )


def one_enormous_part() -> Responses:
    yield part(names=[""] * (5 * MIB // 2))


HOSTILE: dict[str, tuple[dict[str, Any], Callable[[], Responses]]] = {
    "a lease of 4294967295 ms; the longest is 5000 ms": ({"lease_millis": 2**32 - 1}, nothing_more),
    "a ping interval of 4294967295 ms": ({"ping_interval_millis": 2**32 - 1}, nothing_more),
    "more than 67108864 bytes": ({}, lambda: endless(names=["a" * MIB])),
    "more than 250000 queues": ({}, endless_queues),
    "the policies have more than 67108864 bytes": ({}, endless_partitions),
    "more than 2000000 names": ({}, lambda: endless(names=["a"] * (MIB // 2))),
    "more than 16000000 names in levels": (
        {},
        lambda: endless(levels=sync_pb2.LevelColumns(listed=[0] * 2 * MIB)),
    ),
    "more than 8192 levels": ({}, endless_chain),
    "more than 1250000 levels": ({}, endless_levels),
    "a queue path has more than 4096 bytes": ({}, endless_line),
    "the limit is 4194304": ({}, one_enormous_part),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", HOSTILE)
def test_what_is_beyond_the_bounds_ends_the_stream(
    fault: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    greeting, flood = HOSTILE[fault]

    def hostile(requests: Requests, _context: grpc.ServicerContext) -> Responses:
        next(requests)
        yield opened(**greeting)
        yield from flood()

    silent = threading.Event()

    def waits(_requests: Requests, _context: grpc.ServicerContext) -> Responses:
        silent.wait(60)
        yield from ()

    with scripted_sync(hostile, waits) as server:
        gate = KINDS[kind](server.address)
        eventually(lambda: fault in caplog.text, True)
        assert "the server does not follow the protocol: " in caplog.text
        assert gate._decider.decide(ALICE) is None
        assert gate.state is GateState.CONNECTING
        assert not gate._reflector.replica.state.policies
        silent.set()
        eventually(lambda: gate.state, GateState.LIVE)
        [again] = server.opens
        assert not again.held
        gate.close()


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_tables_end_the_stream(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each fault in turn, on a stream of its own, until there is a policy without faults."""

    def script(fault: str) -> Script:
        def hostile(requests: Requests, _context: grpc.ServicerContext) -> Responses:
            next(requests)
            yield opened()
            yield sync_pb2.SyncResponse(policy=faulty(HOSTILE_TABLES[fault]))
            for _ in requests:
                pass

        return hostile

    faults = [
        "a level refers to a level before the first",
        "a level lists a name that does not exist",
        "listed names does not match the levels",
        "has an invalid reason",
        "contains a created queue twice",
    ]
    with scripted_sync(*map(script, faults)) as server, live_gate(server.address, kind) as gate:
        assert server.streams == len(faults) + 1
        for fault in faults:
            assert fault in caplog.text
        assert gate._decider.decide(ALICE)
        [again] = server.opens
        assert not again.held


@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_ends_with_the_server_that_granted_it(kind: str) -> None:
    """Whatever a server has said before it was killed, nobody decides after 5 s."""

    def generous(requests: Requests, context: grpc.ServicerContext) -> Responses:
        for request in requests:
            if request.HasField("open"):
                yield opened(lease_millis=2**32 - 1)
                yield part()
            elif request.HasField("ping"):
                yield sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=request.ping.id))
        context.cancel()

    with scripted_sync(*[generous] * 50) as server:
        gate = KINDS[kind](server.address)
        eventually(lambda: server.streams > 3, True)
        assert gate._decider.decide(ALICE) is None
    assert gate._decider.decide(ALICE) is None
    assert gate.state is GateState.CONNECTING
    gate.close()


class CountingPings(ScriptedSync):
    """Counts the pings, and answers them at once."""

    pings = 0

    def behave(self, requests: Requests, context: grpc.ServicerContext) -> Responses:
        def counted() -> Requests:
            for request in requests:
                self.pings += request.HasField("ping")
                yield request

        yield from super().behave(counted(), context)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_does_not_ping_as_often_as_it_is_told(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.servers.scripted_sync.ScriptedSync", CountingPings)
    with scripted_sync(ping_interval_millis=1) as server, live_gate(server.address, kind) as gate:
        assert isinstance(server, CountingPings)
        before, begin = server.pings, time.monotonic()
        time.sleep(1)  # the time of the gate's own clock is what is tested
        seconds = time.monotonic() - begin
        assert server.pings - before <= seconds / bounds.MIN_PING_SECONDS + 1
        assert gate.state is GateState.LIVE


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_obeys_a_retry_delay(kind: str) -> None:
    refuse = threading.Event()
    ends: list[float] = []

    def refuses(requests: Requests, context: grpc.ServicerContext) -> Responses:
        yield from ScriptedSync.behave(server, until_refused(requests), context)
        ends.append(time.monotonic())
        abort_rate_limited(context, 1.5)

    def until_refused(requests: Requests) -> Requests:
        return itertools.takewhile(lambda _: not refuse.is_set(), requests)

    with scripted_sync(refuses) as server, live_gate(server.address, kind) as gate:
        assert gate._decider.decide(ALICE)
        refuse.set()
        eventually(lambda: len(server.opens), 2)
        assert time.monotonic() - ends[0] >= 1.5
        eventually(lambda: bool(gate._decider.decide(ALICE)), True)


def abort_rate_limited(context: grpc.ServicerContext, seconds: float) -> None:
    """End a stream as a server does whose caller exceeds its rate."""
    status = to_status(RateLimited(seconds))
    context.set_trailing_metadata((("grpc-status-details-bin", status.trailer),))
    context.abort(status.code, status.proto.message)
