"""A cache on a manual clock, and the answers that tests put into it."""

import math
from collections.abc import Collection
from typing import Any, Final

from queuegate_server.identity.cache import CacheEntry, GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.runtime.single_flight import Flight, SingleFlight
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory

GROUPS: Final = KnownUser(("g1", "g2"))
NOBODY: Final = NoSuchUser("not in the directory")
DOWN: Final = LookupFailure("the directory is down")
WALL: Final = 1_700_000_000.0
"""The wall-clock time when a cache is built."""


def build_cache(
    clock: ManualClock, options: CacheOptions | None = None, chance: float = 0.0
) -> GroupCache:
    """Return an empty cache whose lifetimes are shortened only by `chance`."""
    start = clock.now
    return GroupCache(
        options or CacheOptions(), clock, lambda: WALL + clock.now - start, lambda: chance
    )


class Questions:
    """Lookups of one cache's users, which a test starts, answers and abandons."""

    name = "test"
    is_local = False
    load = None

    def __init__(self, cache: GroupCache) -> None:
        self.cache = cache
        source: Any = self
        self._look_up = GroupResolver(source, cache)._look_up
        self._flights = SingleFlight(self._look_up, cache.clock)
        self._outcome: Outcome = DOWN

    @property
    def under_way(self) -> dict[str, list[Flight]]:
        """The questions by user."""
        return self._flights._flights

    def begin(self, user: str) -> Flight:
        flight, running = self._flights._begin(user, None)
        running.close()
        return flight

    async def resolve(self, _user: str) -> Outcome:
        return self._outcome

    def answer(self, flight: Flight, outcome: Outcome) -> CacheEntry:
        """Answer a question, with nothing in between."""
        self._outcome = outcome
        asking = self._look_up(flight)
        try:
            asking.send(None)
        except StopIteration as done:
            entry: CacheEntry = done.value
        else:
            raise AssertionError("a lookup here does not suspend")
        self.give_up(flight)
        return entry

    def give_up(self, flight: Flight) -> None:
        self._flights._end(flight)

    def invalidate(self, users: Collection[str]) -> int:
        """Invalidate users, or all if none are named, and return how many were cached."""
        for user in users:
            self._flights.outdate(user)
        if not users:
            self._flights.outdate_all()
        return invalidate(self.cache, users)


def store_outcome(cache: GroupCache, user: str, outcome: Outcome) -> CacheEntry:
    """Ask and answer for a user, with nothing in between."""
    questions = Questions(cache)
    return questions.answer(questions.begin(user), outcome)


def invalidate(cache: GroupCache, users: Collection[str]) -> int:
    """Invalidate users, or all if none are named, and return how many were cached."""
    return cache.invalidate(users) if users else sum(cache.invalidate_all())


def get(cache: GroupCache, user: str) -> CacheEntry | None:
    """Return the entry of a user unless it has expired."""
    return _resolver(cache).known(user)


def stale_if_error(cache: GroupCache, user: str) -> tuple[CacheEntry, bool] | None:
    """Return the groups to use if the resolver cannot be asked, and whether they are stale."""
    groups = _resolver(cache)._stale(user)
    return None if groups is None else (groups.entry, groups.stale)


def negative_entry(cache: GroupCache, user: str) -> CacheEntry | None:
    """Return the failed lookup that forbids another lookup of the user for now."""
    entry = cache.find(user)
    return None if entry is None else _resolver(cache)._failure(entry, cache.clock())


def _resolver(cache: GroupCache) -> GroupResolver:
    """Return a resolver that may not be asked."""
    guarded = GuardedResolver("down", FakeDirectory(), ResolverOptions(), clock=cache.clock)
    guarded.breaker._open_until = math.inf
    return GroupResolver(guarded, cache)


def describe_entry(cache: GroupCache, user: str) -> str:
    """Describe the basis of a decision: groups, nobody, failure, stale or nothing."""
    entry = get(cache, user)
    if entry is not None:
        names = {KnownUser: "groups", NoSuchUser: "nobody", LookupFailure: "failure"}
        return names[type(entry.outcome)]
    if negative_entry(cache, user) is None:
        return "nothing"
    groups = stale_if_error(cache, user)
    if groups is None:
        return "failure"
    return "stale" if groups[1] else "groups"
