"""The replicas that a change waits for, and how long it waits."""

from dataclasses import replace

from queuegate_server.fleet.barrier import (
    EVICTION_TIMEOUT,
    HEARTBEAT_TIMEOUT,
    ISOLATION_TIMEOUT,
    LEASES_TIMEOUT,
    MAX_TOMBSTONES,
    TOMBSTONE_LIFETIME,
    FleetBarrier,
    Peers,
)
from queuegate_server.fleet.events import ReplicaStatus
from queuegate_server.fleet.keys import LogPosition

EVENT = LogPosition(b"e" * 16, 7, b"nonce")
ANOTHER = LogPosition(b"o" * 16, 7, b"nonce")
LATER = LogPosition(EVENT.epoch, 9, b"later")
"""In the history that this replica has applied."""
A = ReplicaStatus("ida", "a", 1, epoch=EVENT.epoch.hex(), sequence=6)
B = ReplicaStatus("idb", "b", 1, epoch=EVENT.epoch.hex(), sequence=6)


LEFT = ReplicaStatus(
    "idl", "left", 1, epoch=EVENT.epoch.hex(), epoch_age=LEASES_TIMEOUT, has_left=True
)


def fleet(*statuses: ReplicaStatus, now: float = 100.0) -> Peers:
    """Return the other replicas, in a history that is old."""
    peers = Peers("own", "me")
    peers.merge([LEFT, *statuses, ReplicaStatus("own", "me", 9)], now, epoch=EVENT.epoch)
    return peers


def barrier_of(peers: Peers, event: LogPosition, now: float) -> FleetBarrier:
    return FleetBarrier(peers, event, now, has_event=(LATER,).__contains__)


def confirmed(status: ReplicaStatus, *waited_out: str, nonce: bytes = EVENT.nonce) -> ReplicaStatus:
    return replace(status, serial=status.serial + 1, confirmed={nonce.hex(): [*waited_out]})


def test_alone_there_is_nothing_to_wait_for() -> None:
    assert barrier_of(fleet(), EVENT, 100.0).next_end(100.0) is None


def test_it_waits_for_confirmations_and_names_gates_that_were_waited_out() -> None:
    peers = fleet(A, B)
    barrier = barrier_of(peers, EVENT, 100.0)
    assert barrier.next_end(100.0) == 100 + LEASES_TIMEOUT
    peers.merge([confirmed(A), confirmed(B, nonce=b"another")], 100.1)
    assert barrier.next_end(100.1) == 100 + LEASES_TIMEOUT
    peers.merge([replace(confirmed(B, "gate 1"), serial=3)], 100.2)
    assert barrier.next_end(100.2) is None
    assert (barrier.waited_out, barrier.reached) == (["gate 1 (replica b)"], 3)


def test_a_silent_replica_is_waited_out() -> None:
    barrier = barrier_of(fleet(A), EVENT, 100.0)
    assert barrier.next_end(100 + LEASES_TIMEOUT - 0.01) == 100 + LEASES_TIMEOUT
    assert barrier.next_end(100 + LEASES_TIMEOUT) is None
    assert (barrier.waited_out, barrier.reached) == (["replica a"], 1)


def test_one_that_was_silent_before_may_be_cut_off_and_use_what_it_looked_up_alone() -> None:
    late = 200 + LEASES_TIMEOUT
    barrier = barrier_of(fleet(A), EVENT, late)
    assert barrier.next_end(late + ISOLATION_TIMEOUT - 0.01) == late + ISOLATION_TIMEOUT
    assert barrier.next_end(late + ISOLATION_TIMEOUT) is None
    assert barrier.waited_out == ["replica a"]


def test_a_replica_that_joined_later_has_forgotten_everything() -> None:
    peers = fleet(A)
    barrier = barrier_of(peers, EVENT, 100.0)
    peers.merge([replace(A, serial=2, confirmed_through=(6, "aa"))], 100.1)
    assert barrier.next_end(100.1) is not None, "before the event"
    own = (7, EVENT.nonce.hex())
    peers.merge([replace(A, serial=3, confirmed_through=own, epoch="00")], 100.2)
    assert barrier.next_end(100.2) is not None, "in another history"
    for serial, through in ((4, (7, b"lost".hex())), (5, (9, b"lost".hex()))):
        peers.merge([replace(A, serial=serial, confirmed_through=through)], 100.3)
        assert barrier.next_end(100.3) is not None, "of an event that Redis has lost since"
    peers.merge([replace(A, serial=6, confirmed_through=own)], 100.4)
    assert barrier.next_end(100.4) is None
    assert barrier.waited_out == []


def test_a_replica_that_joined_at_a_later_event_has_forgotten_everything() -> None:
    peers = fleet(A)
    barrier = barrier_of(peers, EVENT, 100.0)
    later = (LATER.sequence, LATER.nonce.hex())
    peers.merge([replace(A, serial=2, confirmed_through=later)], 100.1)
    assert barrier.next_end(100.1) is None


def test_a_replica_that_takes_its_time_may_have_more_but_not_a_silent_one() -> None:
    peers = fleet(A, B)
    barrier = barrier_of(peers, EVENT, 100.0)
    late = 100 + LEASES_TIMEOUT
    peers.merge([replace(A, serial=2)], late)
    assert barrier.next_end(late, 60) == late + 60
    assert (barrier.waited_out, barrier.unconfirmed) == (["replica b"], ["b"])
    peers.merge([replace(confirmed(A), serial=3, failed=[EVENT.nonce.hex()])], late + 1)
    assert barrier.next_end(late + 1, 60) is None
    assert barrier.failed == ["a"]


def test_old_statuses_change_nothing() -> None:
    peers = fleet(replace(A, serial=5))
    barrier = barrier_of(peers, EVENT, 100.0)
    peers.merge([confirmed(A)], 100.1)
    assert barrier.next_end(100.1) is not None
    assert peers.all()["ida"].is_silent(100 + HEARTBEAT_TIMEOUT)


def test_a_status_that_is_missing_proves_nothing() -> None:
    peers = fleet(A)
    peers.merge([], 101.0)
    assert barrier_of(peers, EVENT, 101.0).next_end(101.0) is not None


def test_one_that_was_silent_while_it_took_its_time_may_have_renewed_its_lease() -> None:
    """Until it has read the policy, its gates can decide from the previous one."""
    peers = fleet(A)
    barrier = barrier_of(peers, EVENT, 100.0)
    peers.merge([replace(A, serial=2)], 120.0)
    silent = 120 + HEARTBEAT_TIMEOUT
    assert barrier.next_end(silent, 60) == 120 + LEASES_TIMEOUT
    assert barrier.next_end(120 + LEASES_TIMEOUT, 60) is None
    assert barrier.unconfirmed == ["a"]


def test_a_replica_that_has_left_is_not_waited_for() -> None:
    peers = fleet(A)
    barrier = barrier_of(peers, EVENT, 100.0)
    left = replace(A, serial=2, has_left=True)
    assert peers.merge([left], 100.1) == [], "others have yet to see it"
    assert barrier.next_end(100.1) is None
    assert barrier.waited_out == []
    assert peers.merge([A], 100.2) == []
    assert not peers.all(), "its old status does not bring it back"
    assert peers.merge([left], 100.1 + TOMBSTONE_LIFETIME) == [left]


def test_a_replica_that_is_silent_for_long_no_longer_counts() -> None:
    peers = fleet(A)
    assert peers.merge([A], 100 + EVICTION_TIMEOUT) == [A]
    assert not peers.all()
    back = replace(A, serial=2)
    assert peers.merge([back], 101 + EVICTION_TIMEOUT) == []
    assert peers.all(), "it is back"
    assert (
        barrier_of(peers, EVENT, 101 + EVICTION_TIMEOUT).next_end(101 + EVICTION_TIMEOUT)
        is not None
    )
    assert peers.merge([back], 101 + 2 * EVICTION_TIMEOUT) == [back], "and gone again"
    assert not peers.all()


def test_few_replicas_that_are_gone_are_remembered() -> None:
    peers = fleet()
    for number in range(2 * MAX_TOMBSTONES):
        peers.merge([replace(A, instance=f"id{number}", has_left=True)], 100.0)
    assert len(peers._tombstones) == MAX_TOMBSTONES
    assert not peers.all()
    peers.merge([replace(A, instance=f"id{2 * MAX_TOMBSTONES - 1}")], 100.0)
    assert not peers.all(), "its old status does not bring it back"


def test_a_process_that_replaces_another_one_of_its_name() -> None:
    peers = fleet(A)
    again = replace(A, instance="new")
    assert peers.merge([A, again], 101.0) == []
    assert set(peers.all()) == {"ida", "new"}, "it may have leases still"
    assert peers.merge([A, replace(again, serial=2)], 100 + LEASES_TIMEOUT) == [A]
    assert set(peers.all()) == {"new"}


def test_a_process_that_this_one_replaces() -> None:
    peers = fleet(replace(A, name="me"))
    assert peers.merge([], 100 + LEASES_TIMEOUT - 0.01) == []
    assert set(peers.all()) == {"ida"}, "it may have leases still"
    assert peers.merge([replace(A, name="me")], 100 + LEASES_TIMEOUT) == [replace(A, name="me")]
    assert not peers.all()


def test_names_of_several_running_replicas() -> None:
    again = replace(A, instance="new")
    for first, second in ((A, again), (again, A)):
        peers = fleet(first)
        peers.merge([replace(first, serial=2)], 100.5)
        peers.merge([second], 101.0)
        peers.merge([replace(second, serial=2)], 101.5)
        assert peers.duplicate_names() == [], "the first may have been replaced"
        peers.merge([replace(first, serial=3)], 101.6)
        assert peers.duplicate_names() == ["a"]


def test_another_running_replica_of_the_own_name() -> None:
    mine = replace(A, name="me")
    peers = fleet(mine, B)
    assert peers.duplicate_names() == [], "it may be the process that this one replaces"
    peers.merge([replace(mine, serial=2), replace(B, serial=2)], 100.5)
    assert peers.duplicate_names() == ["me"]


def test_replicas_that_were_not_seen_before_another_history_began_are_waited_for() -> None:
    """Redis was emptied right after one had joined: it may have a lease, and gates."""
    peers = fleet()
    peers.merge([], 200.0, epoch=ANOTHER.epoch)
    barrier = barrier_of(peers, ANOTHER, 201.0)
    assert barrier.next_end(201.0) == 200 + LEASES_TIMEOUT
    assert barrier.next_end(200 + LEASES_TIMEOUT) is None
    assert (barrier.waited_out, barrier.relies_on_leases) == ([], True)
    late = barrier_of(peers, ANOTHER, 200 + LEASES_TIMEOUT - 1)
    assert (
        late.next_end(200 + LEASES_TIMEOUT - 1) == 200 + LEASES_TIMEOUT - 1 + ISOLATION_TIMEOUT
    ), "it may be cut off"
    later = barrier_of(peers, ANOTHER, 200 + LEASES_TIMEOUT)
    assert later.next_end(200 + LEASES_TIMEOUT) is None
    assert not later.relies_on_leases


def test_a_replica_that_starts_learns_from_others_how_old_the_history_is() -> None:
    status = replace(confirmed(A), epoch_age=LEASES_TIMEOUT - 3)
    peers = Peers("own", "me")
    peers.merge(
        [status, replace(B, epoch="00", epoch_age=1_000, has_left=True)], 100.0, epoch=EVENT.epoch
    )
    assert barrier_of(peers, EVENT, 100.0).next_end(100.0) == 100 + ISOLATION_TIMEOUT
    peers.merge([replace(status, epoch_age=1.0)], 101.0, epoch=EVENT.epoch)
    assert peers.began_by(EVENT.epoch, 101.0) == 103 - LEASES_TIMEOUT, (
        "an old status makes it no younger"
    )
    assert peers.began_by(b"o" * 16, 101.0) == 101.0, "of another one nothing is known"


def test_a_history_that_is_not_the_one_of_redis_may_have_begun_now() -> None:
    barrier = barrier_of(fleet(), ANOTHER, 100.0)
    assert barrier.next_end(100.0) == 100 + LEASES_TIMEOUT


def test_while_statuses_are_missing_it_waits_for_unknown_replicas() -> None:
    """Somebody else has written so many statuses that Redis does not return all."""
    peers = fleet()
    peers.merge([], 120.0, epoch=EVENT.epoch, is_complete=False)
    assert barrier_of(peers, EVENT, 120.1).next_end(120.1) == 120.0 + LEASES_TIMEOUT
    later = 120.0 + LEASES_TIMEOUT
    peers.merge([], later, epoch=EVENT.epoch)
    assert barrier_of(peers, EVENT, later).next_end(later) is None


def test_a_history_is_followed_by_whoever_sends_heartbeats() -> None:
    peers = fleet(A)
    assert peers.follows(EVENT.epoch, 100.0) is None, "it may have been killed long ago"
    assert peers.follows(ANOTHER.epoch, 100.0) is False
    assert peers.follows(EVENT.epoch, 100.0 + HEARTBEAT_TIMEOUT) is False
    peers.merge([replace(A, serial=2)], 100.4, epoch=EVENT.epoch)
    assert peers.follows(EVENT.epoch, 100.4) is True


def test_a_replica_that_has_stopped_follows_no_history() -> None:
    peers = fleet(A)
    peers.merge([replace(A, serial=2, has_left=True)], 100.4, epoch=EVENT.epoch)
    assert peers.follows(EVENT.epoch, 100.4) is False
