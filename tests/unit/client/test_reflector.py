"""What a gate sends and when, and what it makes of the end of a stream."""

import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest

from queuegate._errors import AT_THE_CLIENT
from queuegate.exceptions import (
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    ServerUnavailable,
)
from queuegate.gate import bounds
from queuegate.gate import reflector as module
from queuegate.gate.checks import BrokenProtocol
from queuegate.gate.reflector import (
    ANSWER_SECONDS,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MAX_WAITING,
    MAX_WANTED,
    GateState,
    Reflector,
    log_exceptions,
)
from queuegate.gate.silence import SILENCE, WATCH_SECONDS
from queuegate.gate.stream_log import MAX_ENDS
from queuegate.v1 import sync_pb2
from tests.support.fakes.clock import ManualClock
from tests.support.servers.scripted_sync import opened, part

GONE = ServerUnavailable("gone", code="UNAVAILABLE")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(module, "clock", made)
    return made


@pytest.fixture
def changes() -> list[str]:
    return []


@pytest.fixture
def reflector(clock: ManualClock, changes: list[str]) -> Iterator[Reflector]:
    made = Reflector(
        "gate",
        (),
        stale=60,
        on_change=lambda: changes.append("policy"),
        on_decision=None,
        wake=lambda: changes.append("wake"),
    )
    yield made
    made.close()


def reflector_of(*partitions: str) -> Reflector:
    """Return a reflector of partitions, for no program."""

    def nothing() -> None:
        """Stand for both callbacks."""

    return Reflector("", partitions, stale=0, on_change=nothing, on_decision=None, wake=nothing)


def greet(reflector: Reflector, **fields: Any) -> None:
    """Open a stream, get a policy, and the answer to a ping."""
    reflector.opened()
    reflector.receive(opened(**fields))
    reflector.receive(part())
    [ping] = [each for each in reflector.due(reflector.stream) if each.HasField("ping")]
    reflector.receive(sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=ping.ping.id)))


def state(reflector: Reflector) -> GateState:
    return reflector.state


def kinds(reflector: Reflector, stream: int = 0) -> list[str | None]:
    requests = reflector.due(stream or reflector.stream)
    return [request.WhichOneof("message") for request in requests]


def test_pings_come_at_the_interval_of_the_server(reflector: Reflector, clock: ManualClock) -> None:
    greet(reflector, ping_interval_millis=500)
    clock.advance(1.0)
    assert kinds(reflector) == ["ping"]
    assert kinds(reflector) == []
    assert reflector.idle_seconds == 0.5
    clock.advance(0.5)
    assert kinds(reflector) == ["ping"]


def test_users_are_asked_for_once_and_in_bounded_messages(
    reflector: Reflector, changes: list[str]
) -> None:
    greet(reflector)
    changes.clear()
    for number in range(MAX_WAITING + 10):
        reflector._want("default", f"user {number}", -math.inf)
        reflector._want("default", f"user {number}", -math.inf)
    assert len(changes) == MAX_WAITING
    asked: list[str] = []
    while wants := [each.want for each in reflector.due(reflector.stream) if each.HasField("want")]:
        assert all(len(each.users) <= MAX_WANTED for each in wants)
        asked += [user for each in wants for user in each.users]
    assert len(asked) == len(set(asked)) == MAX_WAITING
    reflector._want("default", "user 1", -math.inf)
    assert kinds(reflector) == []


def test_groups_that_are_needed_later_are_asked_for_together(
    reflector: Reflector, clock: ManualClock, changes: list[str]
) -> None:
    greet(reflector)
    changes.clear()
    next_ping = clock() + reflector.idle_seconds
    reflector._want("default", "sam", next_ping + ANSWER_SECONDS)
    reflector._want("default", "eve", next_ping + ANSWER_SECONDS)
    assert changes == []
    clock.advance(reflector.idle_seconds)
    ping, want = reflector.due(reflector.stream)
    assert ping.HasField("ping")
    assert set(want.want.users) == {"sam", "eve"}
    reflector._want("default", "max", clock() + ANSWER_SECONDS)
    assert changes == ["wake"]


def test_an_old_stream_sends_nothing(reflector: Reflector) -> None:
    greet(reflector)
    reflector._want("default", "sam", -math.inf)
    reflector.opened()
    assert kinds(reflector, 1) == []
    reflector._want("default", "sam", -math.inf)
    assert kinds(reflector) == ["ping", "want"]


def test_a_stream_without_pongs_is_dead(reflector: Reflector, clock: ManualClock) -> None:
    greet(reflector)
    clock.advance(SILENCE)
    assert not reflector.is_dead
    reflector.receive(sync_pb2.SyncResponse(forget=sync_pb2.Forget(partition="default")))
    clock.advance(0.1)
    assert reflector.is_dead
    reflector.receive(part())
    assert not reflector.is_dead


def pong(reflector: Reflector) -> None:
    """Answer the newest ping."""
    reflector.receive(sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=1)))


def test_pongs_without_a_policy_do_not_keep_a_stream(
    reflector: Reflector, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pauses = []
    for _ in range(3):
        reflector.opened()
        reflector.receive(opened())
        looks = 0
        while not reflector.watch():
            clock.advance(WATCH_SECONDS)
            pong(reflector)
            looks += 1
        assert looks * WATCH_SECONDS == SILENCE + WATCH_SECONDS
        pauses.append(reflector.ended(ServerUnavailable("cancelled", code="CANCELLED")))
    # Each thing is logged once, and streams are opened less and less often.
    fault = "the server responds to pings but has sent no complete policy for 3 s"
    assert [record.message for record in caplog.records] == [
        f"a gate's stream has ended: CANCELLED: {fault}"
    ]
    assert pauses[2] > FIRST_PAUSE


def test_greetings_and_removals_without_a_policy_do_not_keep_a_stream(
    reflector: Reflector, clock: ManualClock
) -> None:
    reflector.opened()
    waited = 0.0
    while not reflector.watch():
        reflector.receive(opened())
        reflector.receive(part(removed=True))
        pong(reflector)
        clock.advance(WATCH_SECONDS)
        waited += WATCH_SECONDS
    assert waited <= bounds.MAX_TRANSFER_SECONDS + 2 * WATCH_SECONDS


def test_a_policy_after_pongs_keeps_a_stream(reflector: Reflector, clock: ManualClock) -> None:
    reflector.opened()
    reflector.receive(opened())
    pong(reflector)
    clock.advance(SILENCE)
    reflector.receive(part())
    for _ in range(20):
        clock.advance(SILENCE)
        assert not reflector.is_dead
        pong(reflector)


@pytest.mark.parametrize("is_removed", [False, True])
def test_a_partition_that_the_server_does_not_have_is_waited_for(
    clock: ManualClock, changes: list[str], is_removed: bool
) -> None:
    reflector = Reflector(
        *("gate", ("later",)),
        stale=0,
        on_change=changes.clear,
        on_decision=None,
        wake=changes.clear,
    )
    reflector.opened()
    reflector.receive(opened(partitions=["later"] if is_removed else []))
    if is_removed:
        reflector.receive(part("later"))
        reflector.receive(part("later", removed=True))
    for _ in range(100):
        pong(reflector)
        clock.advance(SILENCE)
        assert not reflector.is_dead
    reflector.receive(part("later"))
    assert state(reflector) is not GateState.CONNECTING


def test_time_in_which_the_gate_did_not_run_is_no_silence(
    reflector: Reflector, clock: ManualClock
) -> None:
    greet(reflector)
    clock.advance(60)
    assert not reflector.watch()
    looks = 0
    while not reflector.watch():
        clock.advance(WATCH_SECONDS)
        looks += 1
    assert SILENCE - 2 * WATCH_SECONDS <= looks * WATCH_SECONDS <= SILENCE + WATCH_SECONDS


def test_a_broken_protocol_drops_everything(reflector: Reflector) -> None:
    greet(reflector)
    reflector.receive(sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=7)))
    again = reflector.opened().open
    assert again.resume.sequence == 7
    assert again.held
    with pytest.raises(BrokenProtocol, match="the first message must be `opened`"):
        reflector.receive(part())
    assert reflector.resets == 1
    assert state(reflector) is GateState.CONNECTING
    again = reflector.opened().open
    assert not again.resume.epoch
    assert not again.held


def test_only_a_gate_that_has_state_is_reset(reflector: Reflector) -> None:
    reflector.opened()
    reflector.receive(opened())
    greet(reflector)
    reflector.receive(sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=1)))
    greet(reflector, resumed=True)
    assert reflector.resets == 0
    reflector.opened()
    reflector.receive(opened())
    assert reflector.resets == 1


def test_missing_partitions_are_logged_once(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    named = reflector_of("a", "b", "c")
    for held in ([], ["a"], ["a", "b"], ["a", "b", "c"], ["a"]):
        named.opened()
        named.receive(opened(partitions=held))
    assert [record.message for record in caplog.records] == [
        "a gate follows partitions that the server does not have: a, b, c; it has: none of them"
    ]
    named.close()


@pytest.mark.parametrize(
    ("held", "listed"),
    [
        (["hadoop", "default"], "default, hadoop"),
        (
            [f"p{number:02}" for number in range(11)],
            "p00, p01, p02, p03, p04, p05, p06, p07, p08, p09, ...",
        ),
    ],
)
def test_a_mistyped_partition_is_logged_with_those_that_exist(
    held: list[str], listed: str, caplog: pytest.LogCaptureFixture
) -> None:
    named = reflector_of("hadop")
    named.opened()
    named.receive(opened(partitions=held))
    assert [record.message for record in caplog.records] == [
        f"a gate follows partitions that the server does not have: hadop; it has: {listed}"
    ]
    named.close()


def test_a_message_of_a_newer_server_is_ignored(reflector: Reflector) -> None:
    reflector.opened()
    reflector.receive(sync_pb2.SyncResponse())
    assert reflector.resets == 0


def test_only_an_unreachable_server_lets_old_state_decide(reflector: Reflector) -> None:
    greet(reflector)
    for failure, grace in ((GONE, 60), (None, 0), (GONE, 60), (BrokenProtocol("no"), 0)):
        reflector.ended(failure)
        assert reflector.decider.grace == grace
    greet(reflector)
    assert reflector.decider.grace == 0


def test_a_refusal_ends_the_session(reflector: Reflector) -> None:
    greet(reflector)
    reflector.ended(GONE)
    assert state(reflector) is not GateState.CONNECTING
    reflector.ended(NotPermitted("no", code="PERMISSION_DENIED"))
    assert state(reflector) is GateState.CONNECTING


def test_pauses_grow_until_a_pong(reflector: Reflector) -> None:
    pauses = [reflector.ended(GONE) for _ in range(8)]
    assert all(0 < pause <= LONGEST_PAUSE for pause in pauses)
    assert max(pauses) > 2 * FIRST_PAUSE
    greet(reflector)
    assert reflector.ended(GONE) <= FIRST_PAUSE


def test_the_same_end_is_logged_once(
    reflector: Reflector, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        reflector.ended(GONE)
    assert [record.message for record in caplog.records] == [
        "a gate's stream has ended: UNAVAILABLE: gone"
    ]
    reflector.opened()
    clock.advance(SILENCE + 1)
    reflector.ended(ServerUnavailable("cancelled", code="CANCELLED"))
    assert "has not responded to a ping for 3 s" in caplog.text
    assert "cancelled" not in caplog.text


def test_ends_are_logged_again_after_a_stream_that_lasts(
    reflector: Reflector, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    refused = ServerUnavailable("refused", code="UNAVAILABLE")
    for _ in range(3):
        reflector.ended(GONE)
        reflector.ended(refused)
        greet(reflector)
    assert len(caplog.records) == 2
    clock.advance(1)
    [ping] = reflector.due(reflector.stream)
    for _ in range(3):
        reflector.receive(sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=ping.ping.id)))
    reflector.ended(GONE)
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == [
        "gone",
        "refused",
        "a gate's stream is connected again",
        "gone",
    ]


def test_reasons_that_always_differ_are_not_all_logged(
    reflector: Reflector, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3 * MAX_ENDS):
        reflector.ended(ServerUnavailable(f"attempt {number}", code="UNAVAILABLE"))
    assert len(caplog.records) == MAX_ENDS


def test_a_server_may_forbid_decisions(reflector: Reflector) -> None:
    greet(reflector)
    assert state(reflector) is not GateState.FORBIDDEN
    greet(reflector, local_decisions=False)
    assert state(reflector) is GateState.FORBIDDEN
    assert reflector.decider.decide(("alice", "root", "default", "submit", None, "")) is None
    reflector.close()
    assert state(reflector) is GateState.CLOSED


def test_on_change_is_called_for_another_policy(reflector: Reflector, changes: list[str]) -> None:
    greet(reflector)
    assert changes == ["policy"]
    reflector.receive(part(checksum=b"2"))
    assert changes == ["policy", "policy"]


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    log_exceptions("on_change", fails)()
    assert "a gate's on_change callback failed" in caplog.text


def test_policies_without_end_do_not_keep_a_stream(
    reflector: Reflector, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    reflector.opened()
    reflector.receive(opened())
    waited = 0.0
    while not reflector.watch():
        reflector.receive(part())
        clock.advance(WATCH_SECONDS)
        waited += WATCH_SECONDS
    assert bounds.MAX_TRANSFER_SECONDS < waited <= bounds.MAX_TRANSFER_SECONDS + 2 * WATCH_SECONDS
    reflector.ended(ServerUnavailable("cancelled", code="CANCELLED"))
    assert "has not responded to a ping for 120 s" in caplog.text


def test_a_long_transfer_is_no_silence(reflector: Reflector, clock: ManualClock) -> None:
    greet(reflector)
    for _ in range(2):
        for _ in range(int(bounds.MAX_TRANSFER_SECONDS / WATCH_SECONDS)):
            clock.advance(WATCH_SECONDS)
            reflector.receive(part())
            assert not reflector.watch()
        reflector.receive(sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=1)))


def test_only_the_newest_answer_waits(reflector: Reflector) -> None:
    """A server may send for ever, and take nothing."""
    greet(reflector)
    for number in range(1, 1_000):
        checkpoint = sync_pb2.SyncCheckpoint(sequence=number)
        reflector.receive(sync_pb2.SyncResponse(checkpoint=checkpoint))
    [applied] = [each for each in reflector.due(reflector.stream) if each.HasField("applied")]
    assert applied.applied.sequence == 999
    reflector.receive(sync_pb2.SyncResponse(draining=sync_pb2.SyncDraining()))
    reflector.receive(sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=1_000)))
    assert "release" in kinds(reflector)


def test_a_server_may_ask_for_patience(reflector: Reflector) -> None:
    for asked, waited in ((12.0, 12.0), (1e18, bounds.MAX_RETRY_SECONDS)):
        limited = Overloaded("slow down", code="RESOURCE_EXHAUSTED", retry_after=asked)
        assert reflector.ended(limited) == waited
    limited = Overloaded("slow down", code="RESOURCE_EXHAUSTED", retry_after=-1e18)
    assert 0 < reflector.ended(limited) <= LONGEST_PAUSE


def test_too_large_a_message_of_the_server_drops_everything(reflector: Reflector) -> None:
    greet(reflector)
    reflector.ended(MessageTooLarge(f"too large: {AT_THE_CLIENT}", code="RESOURCE_EXHAUSTED"))
    assert state(reflector) is GateState.CONNECTING
