"""The cache while the directory fails: what stays, for how long, and what ends it."""

import pytest

from queuegate_server.identity.cache import NEVER
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Outcome
from tests.support.fakes.caches import (
    DOWN,
    GROUPS,
    NOBODY,
    build_cache,
    describe_entry,
    get,
    negative_entry,
    stale_if_error,
    store_outcome,
)
from tests.support.fakes.clock import ManualClock

# Results of `describe_entry`.
G, N, F, S, NOTHING = "groups", "nobody", "failure", "stale", "nothing"

# The known answer, and the outcome of a later lookup -> the answer for a decision. Times are
# seconds after the first answer; groups expire at 300 and are stale up to 3,900.


@pytest.mark.parametrize(
    ("known", "at", "said", "then"),
    [
        (GROUPS, 100, GROUPS, G),
        (GROUPS, 100, NOBODY, N),
        (GROUPS, 100, DOWN, G),
        (GROUPS, 1000, GROUPS, G),
        (GROUPS, 1000, NOBODY, N),
        (GROUPS, 1000, DOWN, S),
        (GROUPS, 3899, DOWN, S),
        (GROUPS, 3900, GROUPS, G),
        (GROUPS, 3900, NOBODY, N),
        (GROUPS, 3900, DOWN, F),
        (NOBODY, 10, GROUPS, G),
        (NOBODY, 10, NOBODY, N),
        (NOBODY, 10, DOWN, N),
        (NOBODY, 30, GROUPS, G),
        (NOBODY, 30, NOBODY, N),
        (NOBODY, 30, DOWN, F),
        (DOWN, 2, GROUPS, G),
        (DOWN, 2, NOBODY, N),
        (DOWN, 2, DOWN, F),
        (DOWN, 5, GROUPS, G),
        (DOWN, 5, NOBODY, N),
        (DOWN, 5, DOWN, F),
        (None, 0, GROUPS, G),
        (None, 0, NOBODY, N),
        (None, 0, DOWN, F),
    ],
)
def test_what_a_decision_has_after_an_answer(
    known: Outcome | None, at: float, said: Outcome, then: str, clock: ManualClock
) -> None:
    cache = build_cache(clock)
    if known is not None:
        store_outcome(cache, "sue", known)
    clock.advance(at)
    store_outcome(cache, "sue", said)
    assert describe_entry(cache, "sue") == then


@pytest.mark.parametrize(
    ("max_stale", "at", "then"),
    [(0, 299, G), (0, 300, F), (60, 359, S), (60, 360, F), (1e-3, 301, F)],
)
def test_how_long_groups_are_stale(
    max_stale: float, at: float, then: str, clock: ManualClock
) -> None:
    cache = build_cache(clock, CacheOptions(max_stale=max_stale))
    store_outcome(cache, "sue", GROUPS)
    clock.advance(at)
    store_outcome(cache, "sue", DOWN)
    assert describe_entry(cache, "sue") == then


def test_another_max_stale_counts_at_once(clock: ManualClock) -> None:
    """The runbook relies on it: a reload ends the use of expired groups, entries there included."""
    cache = build_cache(clock)
    store_outcome(cache, "sue", GROUPS)
    clock.advance(400)
    store_outcome(cache, "sue", DOWN)
    assert describe_entry(cache, "sue") == S
    cache.options = CacheOptions(max_stale=0)
    assert describe_entry(cache, "sue") == F


def test_a_definite_no_ends_stale_groups_for_good(clock: ManualClock) -> None:
    cache = build_cache(clock)
    store_outcome(cache, "sue", GROUPS)
    clock.advance(400)
    store_outcome(cache, "sue", NOBODY)
    clock.advance(31)
    assert describe_entry(cache, "sue") == NOTHING
    store_outcome(cache, "sue", DOWN)
    assert describe_entry(cache, "sue") == F


def test_a_failure_is_remembered_beside_stale_groups(clock: ManualClock) -> None:
    cache = build_cache(clock)
    groups = store_outcome(cache, "sue", GROUPS)
    clock.advance(400)
    assert negative_entry(cache, "sue") is None
    failure = store_outcome(cache, "sue", DOWN)
    assert failure.fresh_until == NEVER
    assert negative_entry(cache, "sue") is failure
    assert stale_if_error(cache, "sue") == (groups, True)
    clock.advance(5)
    assert negative_entry(cache, "sue") is None, "the directory may be asked again"
    again = store_outcome(cache, "sue", DOWN)
    assert negative_entry(cache, "sue") is again
    assert stale_if_error(cache, "sue") == (groups, True)


def test_a_failure_outlives_the_groups_it_is_remembered_beside(clock: ManualClock) -> None:
    cache = build_cache(clock)
    store_outcome(cache, "sue", GROUPS)
    clock.advance(3899)
    failure = store_outcome(cache, "sue", DOWN)
    clock.advance(2)
    store_outcome(cache, "bob", GROUPS)  # A store drops what is of no more use.
    assert stale_if_error(cache, "sue") is None
    assert negative_entry(cache, "sue") is failure


def test_a_failed_refresh_waits_before_the_next_one(clock: ManualClock) -> None:
    cache = build_cache(clock)
    entry = store_outcome(cache, "sue", GROUPS)
    clock.advance(240)
    assert entry.fresh_until <= clock.now
    store_outcome(cache, "sue", DOWN)
    assert get(cache, "sue") is entry
    assert entry.fresh_until == clock.now + 5
    clock.advance(57)
    store_outcome(cache, "sue", DOWN)
    assert entry.fresh_until == entry.expires_at, "never beyond the expiry"


def test_a_failure_long_before_the_refresh_changes_nothing(clock: ManualClock) -> None:
    cache = build_cache(clock)
    entry = store_outcome(cache, "sue", GROUPS)
    refresh_at = entry.fresh_until
    clock.advance(10)
    store_outcome(cache, "sue", DOWN)
    assert entry.fresh_until == refresh_at
