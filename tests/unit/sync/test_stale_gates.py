"""Which gates a barrier names because they may decide from their last state."""

from typing import Any

import pytest

from queuegate_server.sync.barrier import MAX_AWAY, OTHER_GATES, TIDY_SECONDS, StaleGate
from queuegate_server.sync.session import CLOCK_MARGIN, LEASE
from tests.support.sync_stream import sync_request
from tests.unit.sync.test_barrier import NOW, WHOLE, Streams, apply, send

STALE = 60.0
LONGEST = STALE * (1 + CLOCK_MARGIN / LEASE)
"""How long a gate with a slow clock takes for STALE."""
INSTANCE = bytes(15) + b"1"


class StaleStreams(Streams):
    """Gates that may decide from their last state for STALE seconds."""

    stale_millis = int(STALE * 1_000)

    def change(self, now: float) -> list[StaleGate]:
        """Return the gates that a barrier for another change names."""
        barrier = self.leases.barrier(self.log.invalidate("default"), now)
        while (end := barrier.next_end(now)) is not None:
            now = end
        return barrier.stale(now)


def named(*names: str, seconds: float) -> list[tuple[str, Any]]:
    return [(name, pytest.approx(seconds)) for name in names]


def test_a_gate_that_does_not_confirm_is_named_with_the_rest_of_its_time() -> None:
    streams = StaleStreams()
    streams.live("connected")
    streams.leases.remove(streams.live("away"), NOW)
    assert streams.change(NOW) == named("connected", "away", seconds=LONGEST)
    assert streams.change(NOW + WHOLE + 10) == named("connected", "away", seconds=LONGEST - 10)
    assert streams.change(NOW + WHOLE + LONGEST) == []


def test_a_gate_without_stale_is_not_named() -> None:
    streams = StaleStreams()
    streams.stale_millis = 0
    streams.live("connected")
    streams.leases.remove(streams.live("away"), NOW)
    assert streams.change(NOW) == []


def test_a_gate_that_never_had_a_lease_is_not_named() -> None:
    streams = StaleStreams()
    streams.open("connected")
    streams.leases.remove(streams.open("away"), NOW)
    assert streams.change(NOW) == []


def test_a_gate_that_confirms_on_its_next_stream_is_not_named() -> None:
    streams = StaleStreams()
    streams.leases.remove(streams.live("gate", instance=INSTANCE), NOW)
    barrier = streams.leases.barrier(streams.log.invalidate("default"), NOW)
    following = streams.open("gate", instance=INSTANCE, resume=0)
    assert barrier.stale(NOW) == named("gate", seconds=WHOLE + LONGEST)
    apply(following, streams.log.head)
    assert barrier.stale(NOW) == []


def test_a_gate_that_is_away_with_the_newest_change_is_not_named() -> None:
    streams = StaleStreams()
    session = streams.live("gate")
    apply(session, streams.log.invalidate("default"))
    streams.leases.remove(session, NOW)
    assert streams.leases.barrier(streams.log.head, NOW).stale(NOW) == []
    assert streams.change(NOW) == named("gate", seconds=LONGEST)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_gate_that_releases_its_lease_to_a_draining_server_is_named(is_open: bool) -> None:
    streams = StaleStreams()
    session = streams.live("gate")
    session.receive(sync_request("release"), NOW)
    if not is_open:
        streams.leases.remove(session, NOW)
    assert streams.change(NOW) == named("gate", seconds=LONGEST)


def test_a_gate_that_closes_is_not_named() -> None:
    streams = StaleStreams()
    streams.leases.remove(streams.live("gate", instance=INSTANCE), NOW)
    session = streams.open("gate", instance=INSTANCE, resume=0)
    session.receive(sync_request("release", closed=True), NOW)
    streams.leases.remove(session, NOW)
    assert streams.change(NOW) == []
    alone = streams.live("another")
    alone.receive(sync_request("release", closed=True), NOW)
    assert streams.change(NOW) == [], "although its stream is still open"


def test_the_streams_of_one_gate_are_remembered_as_one() -> None:
    streams = StaleStreams()
    for second in range(3):
        session = streams.open("gate", instance=INSTANCE, resume=0)
        session.receive(sync_request("ping", id=1), NOW + second)
        send(session)
        streams.leases.remove(session, NOW + second)
    streams.leases.remove(streams.open("gate", instance=INSTANCE, resume=0), NOW + 2)
    assert streams.change(NOW + 2) == named("gate", seconds=LONGEST)


def test_gates_above_the_limit_are_named_together() -> None:
    streams = StaleStreams()
    for number in range(MAX_AWAY + 10):
        session = streams.live(f"gate {number}")
        session.receive(sync_request("release"), NOW)
        streams.leases.remove(session, NOW)
    streams.leases.remove(streams.open("the next to go"), NOW + TIDY_SECONDS)
    stale = streams.change(NOW)
    assert len(stale) == MAX_AWAY + 1
    assert stale[0].name == "gate 10"
    assert stale[-1:] == named(OTHER_GATES, seconds=LONGEST)
    assert streams.leases.longest_stale(NOW) == pytest.approx(LONGEST)


def test_the_longest_time_is_that_of_a_stream_that_ends_now() -> None:
    streams = StaleStreams()
    assert streams.leases.longest_stale(NOW) == 0.0
    session = streams.open("gate")
    assert streams.leases.longest_stale(NOW) == pytest.approx(LONGEST)
    streams.leases.remove(session, NOW)
    assert streams.leases.longest_stale(NOW) == 0.0
