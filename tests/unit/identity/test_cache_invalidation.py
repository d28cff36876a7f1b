"""Invalidation: dropped entries, and answers that must not come back."""

import pytest

from queuegate_server.identity.cache import INVALIDATE_STEP, NEVER
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser, Outcome
from tests.support.fakes.caches import (
    DOWN,
    GROUPS,
    NOBODY,
    Questions,
    build_cache,
    describe_entry,
    get,
    invalidate,
    store_outcome,
)
from tests.support.fakes.clock import ManualClock


def test_invalidating_users(clock: ManualClock) -> None:
    cache = build_cache(clock)
    entries = {
        user: store_outcome(cache, user, outcome)
        for user, outcome in (("a", GROUPS), ("b", NOBODY), ("c", DOWN), ("d", GROUPS))
    }
    assert cache.invalidate(["a", "b", "b", "nobody"]) == 2
    assert [entry.fresh_until == NEVER for entry in entries.values()] == [True, True, False, False]
    assert get(cache, "a") is None
    assert get(cache, "d") is entries["d"]
    assert invalidate(cache, []) == 2
    assert all(entry.fresh_until == NEVER for entry in entries.values())
    assert cache.stats.groups.entries == cache.stats.negative.entries == 0
    assert cache.stats.invalidated == 4
    assert invalidate(cache, []) == 0


@pytest.mark.parametrize("users", [[], ["sue"]])
def test_invalidating_drops_stale_groups_too(users: list[str], clock: ManualClock) -> None:
    cache = build_cache(clock)
    store_outcome(cache, "sue", GROUPS)
    clock.advance(400)
    assert invalidate(cache, users) == 1
    store_outcome(cache, "sue", DOWN)
    assert describe_entry(cache, "sue") == "failure"


@pytest.mark.parametrize("users", [[], ["sue"]])
def test_expired_entries_are_not_counted_as_invalidated(
    users: list[str], clock: ManualClock
) -> None:
    cache = build_cache(clock)
    store_outcome(cache, "sue", NOBODY)
    clock.advance(31)
    assert invalidate(cache, users) == 0


@pytest.mark.parametrize("outcome", [GROUPS, NOBODY, DOWN])
@pytest.mark.parametrize(
    ("users", "stored"), [([], False), (["sue"], False), (["bob", "sue"], False), (["bob"], True)]
)
def test_an_answer_from_before_an_invalidation_does_not_come_back(
    users: list[str], stored: bool, outcome: Outcome, clock: ManualClock
) -> None:
    cache = build_cache(clock)
    questions = Questions(cache)
    question = questions.begin("sue")
    questions.invalidate(users)
    entry = questions.answer(question, outcome)
    assert entry.outcome == outcome, "earlier callers get it nevertheless"
    assert (get(cache, "sue") is entry) is stored
    assert (entry.fresh_until > clock.now) is stored
    assert cache.stats.outdated == (0 if stored else 1)
    assert store_outcome(cache, "sue", GROUPS).fresh_until > clock.now, (
        "later questions count again"
    )


@pytest.mark.parametrize("newer", [GROUPS, NOBODY])
def test_an_answer_to_a_later_question_wins(newer: Outcome, clock: ManualClock) -> None:
    cache = build_cache(clock)
    questions = Questions(cache)
    early, late = questions.begin("sue"), questions.begin("sue")
    current = questions.answer(late, newer)
    old = questions.answer(early, KnownUser(("from", "before")))
    assert get(cache, "sue") is current
    assert old.fresh_until == NEVER
    assert cache.stats.outdated == 1


def test_a_failed_later_question_does_not_outdate_an_earlier_one(clock: ManualClock) -> None:
    cache = build_cache(clock)
    questions = Questions(cache)
    early, late = questions.begin("sue"), questions.begin("sue")
    questions.answer(late, DOWN)
    entry = questions.answer(early, GROUPS)
    assert get(cache, "sue") is entry


def test_an_aborted_lookup_leaves_nothing(clock: ManualClock) -> None:
    cache = build_cache(clock)
    questions = Questions(cache)
    early, late = questions.begin("sue"), questions.begin("sue")
    questions.give_up(early)
    questions.give_up(late)
    assert questions.under_way == {}
    assert describe_entry(cache, "sue") == "nothing"


def test_all_entries_are_dropped_in_small_steps(clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=10_000))
    entries = [store_outcome(cache, f"user{number}", GROUPS) for number in range(10_000)]
    steps = cache.invalidate_all()
    assert cache.stats.groups.entries == 0
    assert get(cache, "user1") is None, "nothing is found from now on"
    later = store_outcome(cache, "user1", GROUPS)
    counts = list(steps)
    assert sum(counts) == cache.stats.invalidated == 10_000
    assert max(counts) <= INVALIDATE_STEP
    assert all(entry.fresh_until == NEVER for entry in entries)
    assert get(cache, "user1") is later, "stored after the invalidation"
