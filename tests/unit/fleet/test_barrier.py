"""Which replicas a change waits for, and until when."""

from dataclasses import replace

from queuegate_server.fleet.barrier import ALONE, GONE, HOLDS, MAX_GONE, SILENT, FleetBarrier, Peers
from queuegate_server.fleet.events import Row
from queuegate_server.fleet.keys import Position

EVENT = Position(b"e" * 16, 7, b"nonce")
ANOTHER = Position(b"o" * 16, 7, b"nonce")
A = Row("ida", "a", 1, epoch=EVENT.epoch.hex(), sequence=6)
B = Row("idb", "b", 1, epoch=EVENT.epoch.hex(), sequence=6)


LEFT = Row("idl", "left", 1, epoch=EVENT.epoch.hex(), age=HOLDS, has_left=True)


def fleet(*rows: Row, now: float = 100.0) -> Peers:
    """Return the other replicas, in a history that is old."""
    peers = Peers("own", "me")
    peers.see([LEFT, *rows, Row("own", "me", 9)], now, epoch=EVENT.epoch)
    return peers


def confirmed(row: Row, *waited_out: str, nonce: bytes = EVENT.nonce) -> Row:
    return replace(row, count=row.count + 1, confirmed={nonce.hex(): [*waited_out]})


def test_alone_there_is_nothing_to_wait_for() -> None:
    assert FleetBarrier(fleet(), EVENT, 100.0).next_end(100.0) is None


def test_it_waits_for_confirmations_and_names_gates_that_were_waited_out() -> None:
    peers = fleet(A, B)
    barrier = FleetBarrier(peers, EVENT, 100.0)
    assert barrier.next_end(100.0) == 100 + HOLDS
    peers.see([confirmed(A), confirmed(B, nonce=b"another")], 100.1)
    assert barrier.next_end(100.1) == 100 + HOLDS
    peers.see([replace(confirmed(B, "gate 1"), count=3)], 100.2)
    assert barrier.next_end(100.2) is None
    assert (barrier.waited_out, barrier.reached) == (["gate 1"], 3)


def test_a_silent_replica_is_waited_out() -> None:
    barrier = FleetBarrier(fleet(A), EVENT, 100.0)
    assert barrier.next_end(100 + HOLDS - 0.01) == 100 + HOLDS
    assert barrier.next_end(100 + HOLDS) is None
    assert (barrier.waited_out, barrier.reached) == (["replica a"], 1)


def test_one_that_was_silent_before_may_be_cut_off_and_use_what_it_looked_up_alone() -> None:
    late = 200 + HOLDS
    barrier = FleetBarrier(fleet(A), EVENT, late)
    assert barrier.next_end(late + ALONE - 0.01) == late + ALONE
    assert barrier.next_end(late + ALONE) is None
    assert barrier.waited_out == ["replica a"]


def test_a_replica_that_joined_later_has_forgotten_everything() -> None:
    peers = fleet(A)
    barrier = FleetBarrier(peers, EVENT, 100.0)
    peers.see([replace(A, count=2, settled=6)], 100.1)
    assert barrier.next_end(100.1) is not None, "before the event"
    peers.see([replace(A, count=3, settled=7, epoch="00")], 100.2)
    assert barrier.next_end(100.2) is not None, "in another history"
    peers.see([replace(A, count=4, settled=7)], 100.3)
    assert barrier.next_end(100.3) is None
    assert barrier.waited_out == []


def test_a_replica_that_takes_its_time_may_have_more_but_not_a_silent_one() -> None:
    peers = fleet(A, B)
    barrier = FleetBarrier(peers, EVENT, 100.0)
    late = 100 + HOLDS
    peers.see([replace(A, count=2)], late)
    assert barrier.next_end(late, 60) == late + 60
    assert barrier.waited_out == ["replica b"]
    peers.see([replace(confirmed(A), count=3, refused=[EVENT.nonce.hex()])], late + 1)
    assert barrier.next_end(late + 1, 60) is None
    assert barrier.refused == ["a"]


def test_old_rows_change_nothing() -> None:
    peers = fleet(replace(A, count=5))
    barrier = FleetBarrier(peers, EVENT, 100.0)
    peers.see([confirmed(A)], 100.1)
    assert barrier.next_end(100.1) is not None
    assert peers.all()["ida"].is_silent(100 + SILENT)


def test_a_row_that_is_missing_proves_nothing() -> None:
    peers = fleet(A)
    peers.see([], 101.0)
    assert FleetBarrier(peers, EVENT, 101.0).next_end(101.0) is not None


def test_a_replica_that_has_left_is_not_waited_for() -> None:
    peers = fleet(A)
    barrier = FleetBarrier(peers, EVENT, 100.0)
    left = replace(A, count=2, has_left=True)
    assert peers.see([left], 100.1) == [left]
    assert barrier.next_end(100.1) is None
    assert barrier.waited_out == []
    assert peers.see([A], 100.2) == [A], "it has yet to be removed"
    assert not peers.all(), "its old row does not bring it back"


def test_a_replica_that_is_silent_for_long_no_longer_counts() -> None:
    peers = fleet(A)
    assert peers.see([A], 100 + GONE) == [A]
    assert not peers.all()
    back = replace(A, count=2)
    assert peers.see([back], 101 + GONE) == []
    assert peers.all(), "it is back"
    assert FleetBarrier(peers, EVENT, 101 + GONE).next_end(101 + GONE) is not None
    assert peers.see([back], 101 + 2 * GONE) == [back], "and gone again"
    assert not peers.all()


def test_few_replicas_that_are_gone_are_remembered() -> None:
    peers = fleet()
    for number in range(2 * MAX_GONE):
        peers.see([replace(A, replica=f"id{number}", has_left=True)], 100.0)
    assert len(peers._gone) == MAX_GONE
    assert not peers.all()
    peers.see([replace(A, replica=f"id{2 * MAX_GONE - 1}")], 100.0)
    assert not peers.all(), "its old row does not bring it back"


def test_a_process_that_replaces_another_one_of_its_name() -> None:
    peers = fleet(A)
    again = replace(A, replica="new")
    assert peers.see([A, again], 101.0) == []
    assert set(peers.all()) == {"ida", "new"}, "it may have leases still"
    assert peers.see([A, replace(again, count=2)], 100 + HOLDS) == [A]
    assert set(peers.all()) == {"new"}


def test_a_process_that_this_one_replaces() -> None:
    peers = fleet(replace(A, name="me"))
    assert peers.see([], 100 + HOLDS - 0.01) == []
    assert set(peers.all()) == {"ida"}, "it may have leases still"
    assert peers.see([replace(A, name="me")], 100 + HOLDS) == [replace(A, name="me")]
    assert not peers.all()


def test_replicas_that_were_not_seen_before_another_history_began_are_waited_for() -> None:
    """Redis was emptied right after one had joined: it may have a lease, and gates."""
    peers = fleet()
    peers.see([], 200.0, epoch=ANOTHER.epoch)
    barrier = FleetBarrier(peers, ANOTHER, 201.0)
    assert barrier.next_end(201.0) == 200 + HOLDS
    assert barrier.next_end(200 + HOLDS) is None
    assert (barrier.waited_out, barrier.relies_on_leases) == ([], True)
    late = FleetBarrier(peers, ANOTHER, 200 + HOLDS - 1)
    assert late.next_end(200 + HOLDS - 1) == 200 + HOLDS - 1 + ALONE, "it may be cut off"
    later = FleetBarrier(peers, ANOTHER, 200 + HOLDS)
    assert later.next_end(200 + HOLDS) is None
    assert not later.relies_on_leases


def test_a_replica_that_starts_learns_from_others_how_old_the_history_is() -> None:
    row = replace(confirmed(A), age=HOLDS - 3)
    peers = Peers("own", "me")
    peers.see([row, replace(B, epoch="00", age=1_000, has_left=True)], 100.0, epoch=EVENT.epoch)
    assert FleetBarrier(peers, EVENT, 100.0).next_end(100.0) == 100 + ALONE
    peers.see([replace(row, age=1.0)], 101.0, epoch=EVENT.epoch)
    assert peers.began_by(EVENT.epoch, 101.0) == 103 - HOLDS, "an old row makes it no younger"
    assert peers.began_by(b"o" * 16, 101.0) == 101.0, "of another one nothing is known"


def test_a_history_that_is_not_the_one_of_redis_may_have_begun_now() -> None:
    barrier = FleetBarrier(fleet(), ANOTHER, 100.0)
    assert barrier.next_end(100.0) == 100 + HOLDS
