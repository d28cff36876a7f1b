"""A cache on a manual clock, and the answers that tests put into it."""

from collections.abc import Collection
from typing import Final

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.cache_shards import CacheEntry
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Found, LookupFailed, NoSuchUser, Outcome
from tests.support.fakes.clock import ManualClock

GROUPS: Final = Found(("g1", "g2"))
NOBODY: Final = NoSuchUser("not in the directory")
DOWN: Final = LookupFailed("the directory is down")
WALL: Final = 1_700_000_000.0
"""The wall clock when a cache is built."""


def build_cache(
    clock: ManualClock, options: CacheOptions | None = None, chance: float = 0.0
) -> GroupCache:
    """Return an empty cache whose lifetimes are shortened by `chance` only."""
    start = clock.now
    return GroupCache(
        options or CacheOptions(), clock, lambda: WALL + clock.now - start, lambda: chance
    )


def store_outcome(cache: GroupCache, user: str, outcome: Outcome) -> CacheEntry:
    """Ask and answer for a user without anything in between."""
    return cache.commit(cache.reserve(user), outcome)


def invalidate(cache: GroupCache, users: Collection[str]) -> int:
    """Invalidate users (none named: all) and return how many were known."""
    return cache.invalidate(users) if users else sum(cache.invalidate_all())


def describe_entry(cache: GroupCache, user: str, now: float) -> str:
    """Say what a decision has: groups, nobody, failure, stale or nothing."""
    entry = cache.get(user, now)
    if entry is not None:
        names = {Found: "groups", NoSuchUser: "nobody", LookupFailed: "failure"}
        return names[type(entry.outcome)]
    if cache.negative_entry(user) is None:
        return "nothing"
    groups = cache.stale_if_error(user)
    if groups is None:
        return "failure"
    return "stale" if groups[1] else "groups"
