"""Gates beside servers that send what no server of ours sends: the gate asks, and says why."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from queuegate import GateState
from queuegate.gate import bounds
from queuegate.v1 import policy_pb2, sync_pb2
from queuegate_server.rpc.errors import RateLimited, to_status
from tests.support.eventually import eventually
from tests.support.gates import KINDS, live_gate
from tests.support.servers.scripted_sync import (
    Requests,
    Responses,
    ScriptedSync,
    opened,
    part,
    scripted_sync,
)

ALICE = ("alice", "root", "default", "submit", (), "")
MIB = 1 << 20


def nothing_more() -> Responses:
    yield part()


def endless_parts() -> Responses:
    for number in itertools.count():
        queue = policy_pb2.PolicyQueue(path=f"root.q{number}", submit_acl="a" * MIB)
        yield part(first=number == 0, last=False, queues=[queue])


def endless_queues() -> Responses:
    for number in itertools.count(step=10_000):
        paths = (f"root.q{each}" for each in range(number, number + 10_000))
        queues = [policy_pb2.PolicyQueue(path=path) for path in paths]
        yield part(first=number == 0, last=False, queues=queues)


def endless_partitions() -> Responses:
    for number in itertools.count():
        acl = f"{number}" * 20_000
        yield part(f"p{number}", queues=[policy_pb2.PolicyQueue(path="root", submit_acl=acl)])


def endless_levels() -> Responses:
    path = "root"
    while True:
        yield part(first=path == "root", last=False, queues=[policy_pb2.PolicyQueue(path=path)])
        path += f".{'a' * 50}"


def one_enormous_part() -> Responses:
    queues = [policy_pb2.PolicyQueue()] * (5 * MIB // 2)
    yield part(queues=queues)


HOSTILE: dict[str, tuple[dict[str, Any], Callable[[], Responses]]] = {
    "a lease of 4294967295 ms; the longest is 5000 ms": ({"lease_millis": 2**32 - 1}, nothing_more),
    "a ping interval of 4294967295 ms": ({"ping_interval_millis": 2**32 - 1}, nothing_more),
    "more than 67108864 bytes": ({}, endless_parts),
    "more than 250000 queues": ({}, endless_queues),
    "the policies have more than 67108864 bytes": ({}, endless_partitions),
    "path of a queue must have 1 to 4096 bytes": ({}, endless_levels),
    "the limit is 4194304": ({}, one_enormous_part),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", HOSTILE)
def test_what_is_beyond_the_bounds_ends_the_stream(
    fault: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    greeting, endless = HOSTILE[fault]

    def hostile(requests: Requests, _context: grpc.ServicerContext) -> Responses:
        next(requests)
        yield opened(**greeting)
        yield from endless()

    silent = threading.Event()

    def waits(_requests: Requests, _context: grpc.ServicerContext) -> Responses:
        silent.wait(60)
        yield from ()

    with scripted_sync(hostile, waits) as server:
        gate = KINDS[kind](server.address)
        eventually(lambda: fault in caplog.text, True)
        assert "the server does not follow the protocol: " in caplog.text
        assert gate._decide(ALICE) is None
        assert gate.state is GateState.CONNECTING
        assert not gate._reflector.replica.state.policies
        silent.set()
        eventually(lambda: gate.state, GateState.LIVE)
        [again] = server.opens
        assert not again.held
        gate.close()


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
        assert gate._decide(ALICE) is None
    assert gate._decide(ALICE) is None
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
def test_a_gate_obeys_a_retry_delay_and_keeps_its_decisions(kind: str, tmp_path: Path) -> None:
    opens: list[float] = []

    def refuses(requests: Requests, context: grpc.ServicerContext) -> Responses:
        yield from ScriptedSync.behave(server, until_report(requests), context)
        opens.append(time.monotonic())
        abort_rate_limited(context, 1.5)

    def until_report(requests: Requests) -> Requests:
        for request in requests:
            if request.HasField("report"):
                return
            yield request

    with scripted_sync(refuses, report_decisions=True) as server:
        server._greeting["report_decisions"] = True
        with live_gate(server.address, kind, outbox=tmp_path) as gate:
            assert gate._decide(ALICE)
            eventually(lambda: len(server.opens), 2)
            assert time.monotonic() - opens[0] >= 1.5

            def counts() -> tuple[int, int]:
                found = gate.outbox_counts
                assert found
                return found.confirmed, found.rejected

            eventually(counts, (1, 0))


def abort_rate_limited(context: grpc.ServicerContext, seconds: float) -> None:
    """End a stream as a server does whose caller exceeds its rate."""
    status = to_status(RateLimited(seconds))
    context.set_trailing_metadata((("grpc-status-details-bin", status.trailer),))
    context.abort(status.code, status.proto.message)
