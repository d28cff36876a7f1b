"""A replica's place in the order of events: its lease, gaps, and groups of other replicas."""

from queuegate_server.fleet.events import Change, Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import LEASE, ReplicaLog

EPOCH, OTHER = b"e" * 16, b"o" * 16


def at(sequence: int, epoch: bytes = EPOCH) -> LogPosition:
    return LogPosition(epoch, sequence, b"%d" % sequence if sequence else b"")


def event(sequence: int, user: str = "sam", partition: str = "default") -> Event:
    change = Change.invalidate(partition, (user,) if user else (), is_awaited=False)
    return Event(at(sequence), at(sequence - 1).nonce, change)


def following(sequence: int = 0, sent_at: float = 100.0) -> ReplicaLog:
    log = ReplicaLog()
    log.follow([], at(sequence), sent_at)
    return log


def test_the_lease_runs_from_when_the_heartbeat_was_sent() -> None:
    log = following(3)
    assert log.lease_until == 100 + LEASE
    assert log.renew_lease(at(3), at(3), 101.0)
    assert log.lease_until == 101 + LEASE
    assert log.renew_lease(at(3), at(3), 100.5), "an earlier one"
    assert log.lease_until == 101 + LEASE


def test_a_heartbeat_counts_once_all_events_before_it_are_applied() -> None:
    log = following(3)
    assert log.renew_lease(at(5), at(3), 101.0)
    assert log.apply(event(4))
    assert log.lease_until == 100 + LEASE
    assert log.apply(event(5))
    assert log.lease_until == 101 + LEASE


def test_events_that_do_not_follow_are_a_gap() -> None:
    log = following(3)
    assert not log.fits(event(5)), "one is missing"
    assert not log.fits(event(3)), "again"
    assert not log.fits(event(4)._replace(previous=b"another"))
    assert not log.fits(event(4)._replace(position=at(4, OTHER)))
    assert log.fits(event(4))


def test_lost_history_is_a_gap() -> None:
    log = following(3)
    known = at(3)
    assert not log.renew_lease(at(2), known, 101.0), "an event is lost"
    assert not log.renew_lease(at(3)._replace(nonce=b"another"), known, 101.0)
    assert not log.renew_lease(at(3, OTHER), known, 101.0)
    log.note_known(at(4))
    newest = log.newest
    assert newest == at(4)
    assert not log.renew_lease(at(3), newest, 101.0), "its own event is lost"
    assert log.lease_until == 100 + LEASE


def test_an_answer_from_before_newer_events_is_no_gap() -> None:
    log = following(3)
    assert log.apply(event(4))
    assert log.renew_lease(at(3), at(3), 100.5)


def test_without_a_history_nothing_fits() -> None:
    log = following(3)
    log.lose()
    assert log.position is None
    assert not log.fits(event(4))
    assert not log.renew_lease(at(3), at(3), 101.0)
    assert not log.accepts("default", "sam", at(3))
    assert not log.has_applied(at(1))


def test_groups_of_others_hold_until_an_event_forgets_the_user() -> None:
    log = following(3)
    assert log.accepts("default", "sam", at(3))
    assert log.apply(event(4, "eve"))
    assert log.accepts("default", "sam", at(3))
    assert not log.accepts("default", "eve", at(3))
    assert log.accepts("default", "eve", at(4))
    assert log.apply(event(5, ""))
    assert not log.accepts("default", "sam", at(4)), "all of the partition are forgotten"
    assert log.accepts("other", "sam", at(3))


def test_groups_from_an_unknown_place_do_not_hold() -> None:
    log = following(3)
    assert not log.accepts("default", "sam", at(2)), "events after it are not known"
    assert not log.accepts("default", "sam", at(4)), "from the future"
    assert not log.accepts("default", "sam", at(3, OTHER))
    assert not log.accepts("default", "sam", at(3)._replace(nonce=b"another"))


def test_a_replica_that_joins_learns_of_the_events_before() -> None:
    log = ReplicaLog()
    log.follow([event(2, "zoe"), event(3, "eve"), event(4, "bob")], at(4), 100.0)
    assert log.accepts("default", "sam", at(1))
    assert log.accepts("default", "eve", at(3))
    assert not log.accepts("default", "eve", at(2))
    assert not log.accepts("default", "sam", at(0))
    assert log.has_applied(at(4))
    assert not log.has_applied(at(5))
    assert not log.has_applied(at(1, OTHER))


def test_events_that_do_not_lead_to_the_head_are_left_out() -> None:
    log = ReplicaLog()
    forged = event(3)._replace(previous=b"forged")
    log.follow([event(2), forged, event(4)], at(4), 100.0)
    assert log.accepts("default", "bob", at(3))
    assert not log.accepts("default", "bob", at(2))


def test_an_event_in_the_place_of_a_lost_one_is_a_gap() -> None:
    log = following(3)
    lost, instead = event(4), event(4)._replace(position=LogPosition(EPOCH, 4, b"instead"))
    log.note_known(lost.position)
    assert log.contains(lost.position), "as far as this replica knows"
    assert log.shows_loss(instead)
    assert not log.fits(instead)
    assert log.fits(lost)


def test_an_event_that_follows_another_than_the_lost_one_is_a_gap() -> None:
    log = following(3)
    assert log.apply(event(4))
    after = event(5)._replace(previous=b"instead")
    assert log.shows_loss(after)
    assert not log.fits(after)
    assert not log.shows_loss(event(6)), "events may have been trimmed only"


def test_a_lost_event_is_not_in_a_history_that_has_its_number() -> None:
    """Otherwise nobody would append it again after a fail-over, and a replica that was waited out
    would never carry it out.
    """
    log = following(3)
    assert log.apply(event(4))
    assert log.contains(at(4))
    log.lose()
    assert not log.contains(at(4))
    instead = event(4)._replace(position=LogPosition(EPOCH, 4, b"instead"))
    after = event(5)._replace(previous=b"instead")
    log.follow([instead, after], after.position, 102.0)
    assert not log.contains(at(4))
    assert log.contains(instead.position)
    assert not log.contains(at(6))


def test_a_replica_that_lost_the_order_still_notices_lost_events() -> None:
    """After a fail-over its lease may have ended before it can ask the new master."""
    log = following(3)
    assert log.apply(event(4))
    log.lose()
    log.lose()
    instead = event(4)._replace(position=LogPosition(EPOCH, 4, b"instead"))
    after = event(5)._replace(previous=b"instead")
    assert log.has_lost_events([event(3)], at(3))
    assert log.has_lost_events([instead], instead.position)
    assert log.has_lost_events([instead, after], after.position)
    assert log.has_lost_events([after], after.position)
    assert not log.has_lost_events([event(4)], at(4))
    assert not log.has_lost_events([], at(4))
    assert not log.has_lost_events([event(5)], at(5))
    assert not log.has_lost_events([event(6)], at(6)), "it is too long ago to know"
    assert not log.has_lost_events([], at(0, OTHER)), "another history"


def test_a_history_does_not_come_back_once_another_has_followed() -> None:
    """Redis is emptied, users are invalidated, and then Redis is restored from a backup."""
    log = following(3)
    log.lose()
    assert not log.has_lost_events([event(3)], at(3)), "it has not ended"
    log.follow([], at(0, OTHER), 101.0)
    log.lose()
    assert log.has_lost_events([event(3)], at(3))
    assert log.has_lost_events([event(8)], at(8)), "whatever comes after"
    assert not log.has_lost_events([], at(0, OTHER))


def test_a_head_that_redis_has_named_must_not_be_lost() -> None:
    log = following(3)
    assert log.renew_lease(at(5), at(3), 101.0)
    newest = log.newest
    assert newest == at(5)
    assert not log.renew_lease(at(4), newest, 101.5)


def test_the_number_of_a_lost_event_stands_for_nothing() -> None:
    log = following(3)
    assert log.apply(event(4))
    lost = at(4)._replace(nonce=b"lost")
    assert log.has_applied(at(4))
    assert not log.has_applied(lost)
    assert log.has_applied(at(2)._replace(nonce=b"lost")), "before it followed, with an empty cache"


def away(*, newest: int = 3) -> ReplicaLog:
    """Return the log of a replica that lost the order after it had applied event 3."""
    log = following(3)
    log.note_known(at(newest))
    log.lose()
    return log


def test_a_replica_that_was_away_knows_what_it_has_missed() -> None:
    events = [event(2), event(3), event(4), event(5)]
    for log in (away(), away(newest=5)):
        log.lose()
        assert log.missed(events, at(5)) == events[2:]
        assert log.missed(events[2:], at(5)) == events[2:], "just enough of them"
        assert log.missed(events[:2], at(3)) == []
        assert log.missed([], at(3)) == []


def test_missed_events_are_unknown_if_they_do_not_lead_from_where_the_replica_was() -> None:
    first, second = event(4), event(5)
    cases = {
        "trimmed": ([second], at(5)),
        "all trimmed": ([], at(5)),
        "one is missing": ([first, event(6)], at(6)),
        "another history": ([], at(3, OTHER)),
        "an event in the place of the one that was applied": (
            [first._replace(previous=b"instead"), second],
            at(5),
        ),
        "it is the newest": ([], at(3)._replace(nonce=b"instead")),
        "an earlier one is the newest": ([event(2)], at(2)),
    }
    for name, (events, head) in cases.items():
        assert away().missed(events, head) is None, name
    assert ReplicaLog().missed([first], at(4)) is None, "it follows for the first time"


def test_groups_from_after_a_lost_event_do_not_hold_for_a_replica_that_returns() -> None:
    """A fail-over has put another event in the place of one that this replica has never seen."""
    lost, instead = event(4), event(4, "eve")._replace(position=at(4)._replace(nonce=b"instead"))
    log = following(3)
    log.lose()
    history = [event(3, "zoe"), instead]
    assert not log.has_lost_events(history, instead.position), "it cannot know"
    log.follow(history, instead.position, 100.0)
    assert not log.accepts("default", "sam", lost.position)
    assert not log.accepts("default", "eve", at(3))
    assert log.accepts("default", "eve", instead.position)
    assert not log.has_applied(lost.position)


def test_a_replica_that_only_knew_of_the_lost_event_notices_when_it_returns() -> None:
    instead = event(4, "eve")._replace(position=at(4)._replace(nonce=b"instead"))
    after = event(5, "bob")._replace(previous=b"instead")
    log = following(3)
    log.note_known(at(4))
    log.lose()
    for history in ([], [instead], [instead, after]):
        head = history[-1].position if history else at(3)
        assert log.has_lost_events(history, head)


def test_a_lost_event_that_was_known_but_not_applied_is_noticed() -> None:
    """A fail-over has lost this replica's own event, and others have put events in its place."""
    lost = at(4)._replace(nonce=b"lost")
    log = following(3)
    log.note_known(lost)
    assert log.renew_lease(at(5), at(3), 101.0), "it cannot know yet"
    assert log.shows_loss(event(4))
    assert not log.fits(event(4))
    assert not log.contains(at(4))
    log.lose()
    assert log.has_lost_events([event(4), event(5)], at(5))
    assert log.has_lost_events([event(5)], at(5))
    assert not log.has_lost_events([event(6)], at(6)), "it is too long ago to know"


def test_a_head_in_the_place_of_a_lost_event_is_a_gap() -> None:
    log = following(3)
    log.note_known(at(4)._replace(nonce=b"lost"))
    assert not log.renew_lease(at(4), at(3), 101.0)
