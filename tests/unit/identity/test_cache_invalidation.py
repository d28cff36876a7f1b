"""Invalidation: what is dropped, and what must not come back."""

import pytest

from queuegate_server.identity.resolver import Found, Outcome
from tests.support.fakes.caches import DOWN, GROUPS, NEVER, NOBODY, answer, build, what_is_known
from tests.support.fakes.clock import ManualClock


def test_invalidating_users(clock: ManualClock) -> None:
    cache = build(clock)
    entries = {
        user: answer(cache, user, outcome)
        for user, outcome in (("a", GROUPS), ("b", NOBODY), ("c", DOWN), ("d", GROUPS))
    }
    assert cache.invalidate(["a", "b", "b", "nobody"]) == 2
    assert [entry.fresh_until == NEVER for entry in entries.values()] == [True, True, False, False]
    assert cache.fresh("a", clock.now) is None
    assert cache.fresh("d", clock.now) is entries["d"]
    assert cache.invalidate([]) == 2
    assert all(entry.fresh_until == NEVER for entry in entries.values())
    assert cache.statistics().entries == 0
    assert cache.statistics().invalidated == 4
    assert cache.invalidate([]) == 0


@pytest.mark.parametrize("users", [[], ["sue"]])
def test_invalidating_drops_stale_groups_too(users: list[str], clock: ManualClock) -> None:
    cache = build(clock)
    answer(cache, "sue", GROUPS)
    clock.advance(400)
    assert cache.invalidate(users) == 1
    answer(cache, "sue", DOWN)
    assert what_is_known(cache, "sue", clock.now) == "failure"


@pytest.mark.parametrize("users", [[], ["sue"]])
def test_what_is_of_no_more_use_is_not_counted_as_invalidated(
    users: list[str], clock: ManualClock
) -> None:
    cache = build(clock)
    answer(cache, "sue", NOBODY)
    clock.advance(31)
    assert cache.invalidate(users) == 0


@pytest.mark.parametrize("outcome", [GROUPS, NOBODY, DOWN])
@pytest.mark.parametrize(
    ("users", "stored"), [([], False), (["sue"], False), (["bob", "sue"], False), (["bob"], True)]
)
def test_an_answer_from_before_an_invalidation_does_not_come_back(
    users: list[str], stored: bool, outcome: Outcome, clock: ManualClock
) -> None:
    cache = build(clock)
    ticket = cache.begin("sue")
    cache.invalidate(users)
    entry = cache.store(ticket, outcome)
    assert entry.outcome == outcome, "whoever asked before gets it nevertheless"
    assert (cache.fresh("sue", clock.now) is entry) is stored
    assert (entry.fresh_until > clock.now) is stored
    assert cache.statistics().outdated == (0 if stored else 1)
    assert answer(cache, "sue", GROUPS).fresh_until > clock.now, "later questions count again"


@pytest.mark.parametrize("newer", [GROUPS, NOBODY])
def test_an_answer_to_a_later_question_wins(newer: Outcome, clock: ManualClock) -> None:
    cache = build(clock)
    early, late = cache.begin("sue"), cache.begin("sue")
    current = cache.store(late, newer)
    old = cache.store(early, Found(("from", "before")))
    assert cache.fresh("sue", clock.now) is current
    assert old.fresh_until == NEVER
    assert cache.statistics().outdated == 1


def test_a_failed_later_question_does_not_outdate_an_earlier_one(clock: ManualClock) -> None:
    cache = build(clock)
    early, late = cache.begin("sue"), cache.begin("sue")
    cache.store(late, DOWN)
    entry = cache.store(early, GROUPS)
    assert cache.fresh("sue", clock.now) is entry


def test_an_abandoned_question_leaves_nothing(clock: ManualClock) -> None:
    cache = build(clock)
    early, late = cache.begin("sue"), cache.begin("sue")
    cache.abandon(early)
    cache.abandon(late)
    assert cache._under_way == {}
    assert what_is_known(cache, "sue", clock.now) == "nothing"
