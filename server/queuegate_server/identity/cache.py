"""The group cache of one partition: what the resolver said about its users.

`cachetools` holds the entries in the order of their use. This module adds three outcomes with three
lifetimes, failures that are remembered alongside groups, one bound for users with groups and
another for names without, so that a flood of unknown names evicts no user, and statistics. Groups
that a caller sent never enter the cache: one caller's claim must not change another's answer.
"""

import math
import random
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.identity.shared import CacheLease, EndlessLease, SharedAnswer
from queuegate_server.runtime.single_flight import Flight

TTL_JITTER: Final = 0.1
"""Lifetimes are shortened by up to this fraction, so that entries stored together expire apart."""
REFRESH_AFTER: Final = 0.8
"""Using groups after this fraction of their lifetime, or somewhat earlier, starts a refresh."""
REFRESH_SPREAD: Final = 0.3
"""A refresh may be due earlier by up to this fraction of the lifetime, for the same reason."""

INVALIDATE_STEP: Final = 250
"""How many entries `invalidate_all` drops in one step: less than 1 ms of work."""
MAX_SHARED_GROUPS: Final = 4096
"""How many distinct group lists are remembered to be shared between users."""
MAX_SHARDS: Final = 64
"""Dictionaries are copied when they grow. One for a million users would stop the event loop for
0.1 s, each of 64 for a few ms."""
MIN_SHARD_ENTRIES: Final = 1024
"""A small cache has fewer shards: each evicts its own entries, so one shard is an exact LRU."""
MAX_EVICTIONS: Final = 2
"""The maximum number of entries that one store evicts, after the bound has been lowered."""
NEVER: Final = -math.inf


@dataclass(slots=True, eq=False)
class CacheEntry:
    """The answer about a user, and its lifetime. Only the cache changes it.

    Callers hold the entry itself, not a copy: it ends for all of them as soon as it is replaced,
    invalidated or evicted.
    """

    user: str
    outcome: Outcome
    resolved_at_wall: float = 0.0
    """When the resolver answered, by the wall clock, for people."""
    expires_at_wall: float = 0.0
    """When the entry expires, by the wall clock, for people."""
    expires_at: float = NEVER
    """When the entry expires, by the monotonic clock."""
    fresh_until: float = NEVER
    """When decisions made with the entry stop holding, by the monotonic clock. Later use starts a
    refresh."""
    failure: "CacheEntry | None" = None
    """The failed lookup that came after these groups were resolved."""
    generation: int = 0
    """The lease (`CacheLease`) in which the resolver answered."""

    def stale_until(self, options: CacheOptions) -> float:
        """Return when groups become too old to be used while the resolver cannot be asked."""
        return self.expires_at + options.max_stale

    def end(self) -> None:
        """End the entry for everyone who holds it."""
        self.expires_at = self.fresh_until = NEVER


@dataclass(slots=True)
class Occupancy:
    """How full a part of the cache is."""

    entries: int = 0
    """Entries now, expired ones included."""
    evictions: int = 0
    """Entries that made room for others, since the cache was built."""


@dataclass(slots=True)
class CacheStats:
    """Counts since the cache was built, which `server/metric_families.py` describes."""

    hits: int = 0
    negative_hits: int = 0
    failure_hits: int = 0
    stale_hits: int = 0
    misses: int = 0
    refreshes: int = 0
    invalidated: int = 0
    outdated: int = 0
    groups: Occupancy = field(default_factory=Occupancy)
    negative: Occupancy = field(default_factory=Occupancy)


class GroupCache:
    """Remembers the groups of at most `max_entries` users, and as many names that have none."""

    def __init__(
        self,
        options: CacheOptions,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float] = random.random,
        lease: CacheLease | None = None,
    ) -> None:
        """Build an empty cache.

        Args:
            options: Lifetimes and bounds. May be replaced at any time: entries keep their
                lifetimes, and those in excess of a lower bound are evicted as others are stored.
            clock: A monotonic clock, in seconds.
            wall: The wall clock, in seconds.
            chance: A source of random numbers in [0, 1).
            lease: Says which entries must be asked for again; None: no entry before it expires.
        """
        self.lease: Final = lease or EndlessLease()
        self.options = options
        self.clock: Final = clock
        """The monotonic clock, in seconds."""
        self.wall: Final = wall
        """The wall clock, in seconds."""
        self._chance = chance
        shards = max(1, min(MAX_SHARDS, options.max_entries // MIN_SHARD_ENTRIES))
        self.stats: Final = CacheStats()
        self._groups = _Shards(shards, self.stats.groups)
        self._negative = _Shards(shards, self.stats.negative)
        self._shared_groups: LRUCache[tuple[str, ...], KnownUser] = LRUCache(MAX_SHARED_GROUPS)

    def find(self, user: str) -> CacheEntry | None:
        """Return the entry of a user, expired or not, and mark it as the most recently used."""
        shards = self._groups.shards
        try:
            return shards[hash(user) % len(shards)][user]
        except KeyError:
            return self._negative.shard(user).get(user)

    def store(
        self, flight: Flight, outcome: Outcome, shared: SharedAnswer | None = None
    ) -> CacheEntry:
        """Store the answer of a lookup, unless the user has been invalidated since, or a later
        lookup has been answered, and return it as an entry.

        A failure never replaces a usable answer.

        Args:
            flight: The lookup.
            outcome: Its answer.
            shared: The answer as another server obtained it; None: the resolver has just answered.
        """
        user = flight.key
        if flight.is_outdated:
            self.stats.outdated += 1
            return self.uncached(user, outcome, shared, started_at=flight.started_at)
        if isinstance(outcome, LookupFailure):
            return self._store_failure(user, outcome)
        if isinstance(outcome, KnownUser):
            outcome = self._shared(outcome)
        entry = self.find(user)
        if entry is None or entry.outcome != outcome:
            entry = CacheEntry(user, outcome)
        # Otherwise decisions made with the entry would hold again.
        self._renew(entry, shared, flight.started_at)
        self._put(entry)
        return entry

    def uncached(
        self,
        user: str,
        outcome: Outcome,
        shared: SharedAnswer | None = None,
        *,
        started_at: float | None = None,
    ) -> CacheEntry:
        """Return an answer as an entry that is not in the cache."""
        entry = self._renew(CacheEntry(user, outcome), shared, started_at)
        entry.fresh_until = NEVER
        return entry

    def invalidate(self, users: Collection[str]) -> int:
        """Drop the entries of some users and return how many were usable."""
        now = self.clock()
        dropped = [self._groups.drop(user) or self._negative.drop(user) for user in set(users)]
        return sum(self._end(entry, now) for entry in dropped if entry is not None)

    def invalidate_all(self) -> Iterator[int]:
        """Drop all entries, in steps, and yield how many usable ones each step dropped.

        The cache is empty immediately. Decisions made with an entry may be used until the iterator
        is exhausted.
        """
        return self._drain([*self._groups.take_all(), *self._negative.take_all()], self.clock())

    def _drain(self, shards: "list[_Shard]", now: float) -> Iterator[int]:
        for shard in shards:
            while shard:
                size = min(INVALIDATE_STEP, len(shard))
                yield sum(self._end(shard.popitem()[1], now) for _ in range(size))

    def _end(self, entry: CacheEntry, now: float) -> bool:
        """End an invalidated entry, and return whether it was usable."""
        until = entry.expires_at
        if isinstance(entry.outcome, KnownUser):
            failure_until = NEVER if entry.failure is None else entry.failure.expires_at
            until = max(entry.stale_until(self.options), failure_until)
        entry.end()
        self.stats.invalidated += now < until
        return now < until

    def _put(self, entry: CacheEntry) -> None:
        groups, negative = self._groups, self._negative
        kind, other = (
            (groups, negative) if isinstance(entry.outcome, KnownUser) else (negative, groups)
        )
        replaced = other.drop(entry.user)
        if replaced is not None:
            replaced.end()
        kind.put(entry, self.options.max_entries)

    def _store_failure(self, user: str, outcome: LookupFailure) -> CacheEntry:
        now = self.clock()
        failure = self._renew(CacheEntry(user, outcome))
        known = self.find(user)
        if known is None or not self._outlives_failures(known, now):
            self._put(failure)
            return failure
        failure.fresh_until = NEVER
        if isinstance(known.outcome, KnownUser):
            known.failure = failure
            # The next refresh waits until the resolver may be asked again.
            retry_at = min(failure.expires_at, known.expires_at)
            known.fresh_until = max(known.fresh_until, retry_at)
        return failure

    def _outlives_failures(self, entry: CacheEntry, now: float) -> bool:
        if isinstance(entry.outcome, KnownUser):
            return now < entry.stale_until(self.options)
        is_absence = isinstance(entry.outcome, NoSuchUser)
        return is_absence and now < entry.expires_at and entry.generation == self.lease.generation

    def _renew(
        self, entry: CacheEntry, shared: SharedAnswer | None = None, started_at: float | None = None
    ) -> CacheEntry:
        """Give an entry the lifetime of a new answer, or what is left of the lifetime of a shared
        one. `started_at` is when the resolver was asked.
        """
        options = self.options
        refresh_after = 1.0
        if isinstance(entry.outcome, KnownUser):
            ttl = options.positive_ttl
            refresh_after = REFRESH_AFTER - REFRESH_SPREAD * self._chance()
        elif isinstance(entry.outcome, NoSuchUser):
            ttl = options.negative_ttl
        else:
            ttl = options.failure_ttl
        ttl *= 1 - TTL_JITTER * self._chance()
        now, wall = self.clock(), self.wall()
        if shared is not None:
            ttl = min(ttl, shared.expires_at - wall)
        if started_at is not None:
            ttl = max(0.0, min(ttl, started_at + self.lease.max_age - now))
        entry.resolved_at_wall = wall if shared is None else shared.resolved_at
        entry.expires_at_wall = wall + ttl
        entry.expires_at = now + ttl
        entry.fresh_until = now + ttl * refresh_after
        entry.failure = None
        entry.generation = self.lease.generation
        return entry

    def _shared(self, known: KnownUser) -> KnownUser:
        """Return an equal outcome that other entries hold: many users share few group lists."""
        shared = self._shared_groups.get(known.groups)
        if shared is None:
            shared = KnownUser(tuple(map(sys.intern, known.groups)))
            self._shared_groups[shared.groups] = shared
        return shared


_Shard = LRUCache[str, CacheEntry]


class _Shards:
    """Entries of one kind, in shards of about the same size.

    A shard has no bound of its own, since the bound of a cachetools cache cannot change.
    """

    def __init__(self, count: int, occupancy: Occupancy) -> None:
        self.shards: list[_Shard] = [LRUCache(math.inf) for _ in range(count)]
        self._occupancy = occupancy

    def shard(self, user: str) -> _Shard:
        """Return the shard that holds the entry of a user, if there is one."""
        return self.shards[hash(user) % len(self.shards)]

    def put(self, entry: CacheEntry, max_entries: int) -> None:
        """Add an entry; the least recently used ones make room."""
        shard = self.shard(entry.user)
        replaced = shard.get(entry.user)
        if replaced is None:
            self._occupancy.entries += 1
        elif replaced is not entry:
            replaced.end()
        shard[entry.user] = entry
        for _ in range(MAX_EVICTIONS):
            if self._occupancy.entries <= max_entries or len(shard) == 1:
                return
            shard.popitem()[1].end()
            self._occupancy.entries -= 1
            self._occupancy.evictions += 1

    def drop(self, user: str) -> CacheEntry | None:
        """Remove the entry of a user, if there is one, and return it."""
        entry = self.shard(user).pop(user, None)
        if entry is not None:
            self._occupancy.entries -= 1
        return entry

    def take_all(self) -> list[_Shard]:
        """Remove all entries, and return the shards that held them."""
        shards, self.shards = self.shards, [LRUCache(math.inf) for _ in self.shards]
        self._occupancy.entries = 0
        return shards
