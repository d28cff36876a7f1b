"""The cache by itself: lifetimes, eviction, counts, and that equal answers are shared."""

import heapq
import random
from collections import Counter

import pytest

from queuegate_server.identity.cache import MAX_SHARED_GROUPS, NEVER, GroupCache
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser, NoSuchUser, Outcome
from tests.support.fakes.caches import (
    DOWN,
    GROUPS,
    NOBODY,
    WALL,
    build_cache,
    describe_entry,
    get,
    stale_if_error,
    store_outcome,
)
from tests.support.fakes.clock import ManualClock


@pytest.mark.parametrize(
    ("outcome", "lifetime", "fresh"),
    [
        pytest.param(GROUPS, 300.0, 240.0, id="groups"),
        pytest.param(NOBODY, 30.0, 30.0, id="no such user"),
        pytest.param(DOWN, 5.0, 5.0, id="could not ask"),
    ],
)
def test_lifetimes(outcome: Outcome, lifetime: float, fresh: float, clock: ManualClock) -> None:
    cache = build_cache(clock)
    entry = store_outcome(cache, "sue", outcome)
    assert entry.user == "sue"
    assert entry.outcome == outcome
    assert (entry.resolved_at_wall, entry.expires_at_wall) == (WALL, WALL + lifetime)
    assert entry.expires_at == clock.now + lifetime
    assert entry.fresh_until == clock.now + fresh
    clock.advance(lifetime - 0.001)
    assert get(cache, "sue") is entry
    clock.advance(0.001)
    assert get(cache, "sue") is None


@pytest.mark.parametrize(("chance", "part"), [(0.0, 1.0), (0.5, 0.95), (0.999999, 0.9)])
def test_jitter_shortens_lifetimes_a_little(chance: float, part: float, clock: ManualClock) -> None:
    for outcome, lifetime in ((GROUPS, 300.0), (NOBODY, 30.0), (DOWN, 5.0)):
        entry = store_outcome(build_cache(clock, chance=chance), "sue", outcome)
        assert entry.expires_at - clock.now == pytest.approx(lifetime * part, rel=1e-5)
        assert entry.expires_at - clock.now <= lifetime


def test_names_are_compared_exactly(clock: ManualClock) -> None:
    cache = build_cache(clock)
    store_outcome(cache, "sue", GROUPS)
    assert get(cache, "Sue") is None
    assert get(cache, "sue ") is None


@pytest.mark.parametrize("outcome", [GROUPS, NOBODY, DOWN])
def test_no_entry_is_fresh_once_it_is_replaced(outcome: Outcome, clock: ManualClock) -> None:
    cache = build_cache(clock)
    old = store_outcome(cache, "sue", outcome)
    new = store_outcome(cache, "sue", KnownUser(("other",)))
    assert old.fresh_until == NEVER
    assert new.fresh_until > clock.now


@pytest.mark.parametrize("outcome", [GROUPS, NOBODY])
def test_the_least_recently_used_makes_room(outcome: Outcome, clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=3))
    entries = {}
    for user in "abc":
        entries[user] = store_outcome(cache, user, outcome)
        clock.advance(2)
    get(cache, "a")
    clock.advance(2)
    store_outcome(cache, "d", outcome)
    assert entries["b"].fresh_until == NEVER
    assert get(cache, "b") is None
    clock.advance(2)
    store_outcome(cache, "e", outcome)
    assert entries["c"].fresh_until == NEVER
    assert get(cache, "a") is entries["a"]
    kind = cache.stats.groups if outcome is GROUPS else cache.stats.negative
    assert (kind.evictions, kind.entries) == (2, 3)


@pytest.mark.parametrize("unknown", [NOBODY, DOWN])
@pytest.mark.parametrize("max_entries", [3, 1000, 5000])
def test_names_without_groups_push_out_nobody_who_has_some(
    max_entries: int, unknown: Outcome, clock: ManualClock
) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=max_entries))
    known = {f"user{n}": store_outcome(cache, f"user{n}", GROUPS) for n in range(max_entries)}
    clock.advance(301)
    for number in range(3 * max_entries):
        store_outcome(cache, f"made-up{number}", unknown)
    for user, entry in known.items():
        store_outcome(cache, user, DOWN)
        assert stale_if_error(cache, user) == (entry, True)
    stats = cache.stats
    assert (stats.groups.entries, stats.groups.evictions) == (max_entries, 0)
    assert (stats.negative.entries, stats.negative.evictions) == (max_entries, 2 * max_entries)


@pytest.mark.parametrize("outcome", [GROUPS, NOBODY, DOWN])
def test_a_user_is_remembered_once(outcome: Outcome, clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_stale=0))
    for first in (GROUPS, NOBODY, DOWN):
        store_outcome(cache, "sue", first)
        clock.advance(301)
        store_outcome(cache, "sue", outcome)
        has_groups = outcome is GROUPS
        assert cache.stats.groups.entries == has_groups
        assert cache.stats.negative.entries == (not has_groups)
        clock.advance(301)


def test_another_answer_for_the_same_user_evicts_nobody(clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=2))
    for _ in range(5):
        for outcome in (GROUPS, NOBODY, DOWN):
            store_outcome(cache, "sue", outcome)
            store_outcome(cache, "bob", GROUPS)
    assert cache.stats.groups.evictions == cache.stats.negative.evictions == 0
    assert get(cache, "bob") is not None


@pytest.mark.parametrize("max_entries", [1, 1000, 5000, 100_000])
def test_a_cache_of_many_shards_holds_as_many_entries_as_one(
    max_entries: int, clock: ManualClock
) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=max_entries))
    for number in range(max_entries):
        store_outcome(cache, f"user{number}", GROUPS)
    groups = cache.stats.groups
    assert (groups.entries, groups.evictions) == (max_entries, 0)
    store_outcome(cache, "one more", GROUPS)
    assert (groups.entries, groups.evictions) == (max_entries, 1)
    assert get(cache, "one more") is not None


def test_an_uncached_entry_is_not_in_the_cache(clock: ManualClock) -> None:
    cache = build_cache(clock)
    entry = cache.uncached("sue", DOWN)
    assert entry.fresh_until == NEVER
    assert entry.expires_at_wall == WALL + 5
    assert describe_entry(cache, "sue") == "nothing"


def test_counts(clock: ManualClock) -> None:
    cache = build_cache(clock)
    for user, outcome in (("a", GROUPS), ("b", NOBODY), ("c", DOWN)):
        store_outcome(cache, user, outcome)
    for user in "aaabbc":
        get(cache, user)
    get(cache, "nobody")
    clock.advance(300)
    get(cache, "a")
    stale_if_error(cache, "a")
    statistics = cache.stats
    assert (statistics.hits, statistics.negative_hits, statistics.failure_hits) == (3, 2, 1)
    assert statistics.stale_hits == 1


def test_equal_group_lists_are_one_object(clock: ManualClock) -> None:
    cache = build_cache(clock)
    first, second, other = (
        store_outcome(cache, user, KnownUser(tuple(f"group-{number}" for number in numbers)))
        for user, numbers in (("a", (1, 2)), ("b", (1, 2)), ("c", (1, 3)))
    )
    assert first.outcome is second.outcome
    assert isinstance(first.outcome, KnownUser)
    assert isinstance(other.outcome, KnownUser)
    assert first.outcome.groups[0] is other.outcome.groups[0]


def test_a_limited_number_of_group_lists_is_remembered(clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=10))
    for number in range(2 * MAX_SHARED_GROUPS):
        store_outcome(cache, f"user{number}", KnownUser((f"group{number}",)))
    assert len(cache._shared_groups) == MAX_SHARED_GROUPS


def test_a_lower_bound_is_reached_gradually(clock: ManualClock) -> None:
    cache = build_cache(clock, CacheOptions(max_entries=1000))
    for number in range(1000):
        store_outcome(cache, f"user{number}", GROUPS)
    cache.options = CacheOptions(max_entries=10)
    store_outcome(cache, "last", GROUPS)
    statistics = cache.stats.groups
    assert 990 < statistics.entries < 1000
    for number in range(1000):
        store_outcome(cache, f"more{number}", GROUPS)
    assert (statistics.entries, statistics.evictions) == (10, 1991)
    assert get(cache, "more999") is not None


def test_the_same_groups_again_renew_the_entry(clock: ManualClock) -> None:
    cache = build_cache(clock)
    first = store_outcome(cache, "sue", KnownUser(("g1", "g2")))
    clock.advance(200)
    assert store_outcome(cache, "sue", KnownUser(("g1", "g2"))) is first
    assert first.expires_at == clock.now + 300
    clock.advance(301)
    assert store_outcome(cache, "sue", KnownUser(("g1", "g2"))) is first
    assert get(cache, "sue") is first
    cache.invalidate(["sue"])
    assert store_outcome(cache, "sue", KnownUser(("g1", "g2"))) is not first
    assert first.fresh_until <= clock.now
    assert store_outcome(cache, "sue", NoSuchUser("gone")) is not first


USERS = 10_000


def test_users_who_came_within_a_second_are_refreshed_apart(clock: ManualClock) -> None:
    start = clock.now
    cache = GroupCache(CacheOptions(), clock, clock, random.Random(7).random)
    due = [(start + number / USERS, f"u{number}") for number in range(USERS)]
    seconds: Counter[int] = Counter()
    # All are in use all the time: each lookup begins when it is due.
    while due[0][0] < start + 900:
        at, user = due[0]
        clock.now = at
        seconds[int(at - start)] += 1
        heapq.heapreplace(due, (store_outcome(cache, user, GROUPS).fresh_until, user))
    assert seconds.pop(0) == USERS
    assert min(seconds) >= 300 * 0.9 * 0.5 - 1
    assert max(seconds.values()) < 200, "2 % of them in a second"
    later = [seconds[second] for second in range(450, 900)]
    assert max(later) < 2.5 * USERS / (300 * 0.95 * 0.65)
