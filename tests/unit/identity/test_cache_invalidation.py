"""Invalidation: dropped entries, and answers that must not come back."""

import pytest

from queuegate_server.identity.cache import INVALIDATE_STEP
from queuegate_server.identity.cache_shards import NEVER
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Found, Outcome
from tests.support.fakes.caches import (
    DOWN,
    GROUPS,
    NOBODY,
    build_cache,
    describe_entry,
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
    assert [entry.refresh_at == NEVER for entry in entries.values()] == [True, True, False, False]
    assert cache.get("a", clock.now) is None
    assert cache.get("d", clock.now) is entries["d"]
    assert invalidate(cache, []) == 2
    assert all(entry.refresh_at == NEVER for entry in entries.values())
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
    assert describe_entry(cache, "sue", clock.now) == "failure"


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
    reservation = cache.reserve("sue")
    invalidate(cache, users)
    entry = cache.commit(reservation, outcome)
    assert entry.outcome == outcome, "earlier callers get it nevertheless"
    assert (cache.get("sue", clock.now) is entry) is stored
    assert (entry.refresh_at > clock.now) is stored
    assert cache.stats.outdated == (0 if stored else 1)
    assert store_outcome(cache, "sue", GROUPS).refresh_at > clock.now, "later questions count again"


@pytest.mark.parametrize("newer", [GROUPS, NOBODY])
def test_an_answer_to_a_later_question_wins(newer: Outcome, clock: ManualClock) -> None:
    cache = build_cache(clock)
    early, late = cache.reserve("sue"), cache.reserve("sue")
    current = cache.commit(late, newer)
    old = cache.commit(early, Found(("from", "before")))
    assert cache.get("sue", clock.now) is current
    assert old.refresh_at == NEVER
    assert cache.stats.outdated == 1


def test_a_failed_later_question_does_not_outdate_an_earlier_one(clock: ManualClock) -> None:
    cache = build_cache(clock)
    early, late = cache.reserve("sue"), cache.reserve("sue")
    cache.commit(late, DOWN)
    entry = cache.commit(early, GROUPS)
    assert cache.get("sue", clock.now) is entry


def test_an_aborted_lookup_leaves_nothing(clock: ManualClock) -> None:
    cache = build_cache(clock)
    early, late = cache.reserve("sue"), cache.reserve("sue")
    cache.abort(early)
    cache.abort(late)
    assert cache._reservations == {}
    assert describe_entry(cache, "sue", clock.now) == "nothing"


def test_all_entries_are_dropped_in_small_steps(clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=10_000))
    entries = [store_outcome(cache, f"user{number}", GROUPS) for number in range(10_000)]
    steps = cache.invalidate_all()
    assert cache.stats.groups.entries == 0
    assert cache.get("user1", clock.now) is None, "nothing is found from now on"
    later = store_outcome(cache, "user1", GROUPS)
    counts = list(steps)
    assert sum(counts) == cache.stats.invalidated == 10_000
    assert max(counts) <= INVALIDATE_STEP
    assert all(entry.refresh_at == NEVER for entry in entries)
    assert cache.get("user1", clock.now) is later, "stored after the invalidation"
