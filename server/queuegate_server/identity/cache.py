"""A partition's group cache.

`cachetools` keeps the entries in LRU order. This module adds statistics, a TTL that depends on the
outcome, failed lookups stored alongside the last known groups, and separate bounds for users with
groups and for names without groups, so that a flood of unknown names cannot evict users. Groups
sent by callers are never cached, because one caller's claim must not affect another's decision.
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
from queuegate_server.identity.shared import CacheLease, EndlessLease, SharedResult
from queuegate_server.runtime.single_flight import Flight

TTL_JITTER: Final = 0.1
"""TTLs are randomly shortened by up to this fraction so that entries do not all expire at once."""
REFRESH_AFTER: Final = 0.8
"""An entry is refreshed when it is used after this fraction of its TTL, minus some jitter."""
REFRESH_SPREAD: Final = 0.3
"""The maximum jitter subtracted from `REFRESH_AFTER`."""

INVALIDATE_STEP: Final = 250
"""The number of entries dropped in each step of `invalidate_all`. A step takes less than 1 ms."""
MAX_SHARED_GROUPS: Final = 4096
"""The maximum number of distinct group lists interned across users."""
MAX_SHARDS: Final = 64
"""The maximum number of shards. Growing a dictionary copies it. For a million users, this would
block the event loop for 0.1 s with one dictionary, but only for a few ms with 64."""
MIN_SHARD_ENTRIES: Final = 1024
"""The minimum shard size. Shards evict independently, so LRU order is exact only within a shard."""
MAX_EVICTIONS: Final = 2
"""The maximum number of entries evicted per stored entry. It is more than 1 so that the cache
shrinks after its bound has been lowered."""
NEVER: Final = -math.inf


@dataclass(slots=True, eq=False)
class CacheEntry:
    """A cached lookup outcome with its lifetime. Only the cache modifies it.

    Callers hold the entry itself, not a copy. When it is replaced, invalidated or evicted, it
    expires for all callers at once.
    """

    user: str
    outcome: Outcome
    resolved_at_wall: float = 0.0
    """When the resolver responded (wall clock), for display."""
    expires_at_wall: float = 0.0
    """When the entry expires (wall clock), for display."""
    expires_at: float = NEVER
    """When the entry expires (monotonic clock)."""
    fresh_until: float = NEVER
    """When decisions based on the entry expire (monotonic clock). Using the entry after this time
    triggers a refresh."""
    is_shared: bool = False
    """Whether another server of the fleet resolved the user."""
    failure: "CacheEntry | None" = None
    """The entry for the latest failed lookup since these groups were resolved, if any."""
    generation: int = 0
    """The generation of the `CacheLease` when the outcome was stored."""

    def stale_until(self, options: CacheOptions) -> float:
        """Return when the groups become too stale to use even if the resolver is unavailable."""
        return self.expires_at + options.max_stale

    def expire(self) -> None:
        """Expire the entry for all its holders."""
        self.expires_at = self.fresh_until = NEVER


@dataclass(slots=True)
class Occupancy:
    """Usage of one half of the cache (known users, or unknown names and failed lookups)."""

    entries: int = 0
    """The current number of entries, including expired ones."""
    evictions: int = 0
    """The number of entries evicted since the cache was created."""


@dataclass(slots=True)
class CacheStats:
    """Counts of events since the cache was created. See `observe/metrics.toml`."""

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


@dataclass(eq=False)
class GroupCache:
    """Caches up to `max_entries` users with groups, and as many names without groups."""

    options: CacheOptions
    """TTLs and bounds. May be replaced at any time. Existing entries then keep their TTLs. If a
    bound is lowered, excess entries are evicted as new ones are stored."""
    clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    wall: Callable[[], float]
    """The wall clock, in seconds."""
    chance: Callable[[], float] = random.random
    """Returns random numbers in [0, 1)."""
    lease: CacheLease = field(default_factory=EndlessLease)
    """The cache lease. Entries stored before the lease ended must be revalidated."""

    def __post_init__(self) -> None:
        shards = max(1, min(MAX_SHARDS, self.options.max_entries // MIN_SHARD_ENTRIES))
        self.stats = CacheStats()
        self._groups = _Shards(shards, self.stats.groups)
        self._negative = _Shards(shards, self.stats.negative)
        self._shared_groups: LRUCache[tuple[str, ...], KnownUser] = LRUCache(MAX_SHARED_GROUPS)

    def find(self, user: str) -> CacheEntry | None:
        """Return a user's entry, expired or not, and mark it as most recently used."""
        shards = self._groups.shards
        try:
            return shards[hash(user) % len(shards)][user]
        except KeyError:
            return self._negative.shard(user).get(user)

    def store(
        self, flight: Flight, outcome: Outcome, shared: SharedResult | None = None
    ) -> CacheEntry:
        """Return an entry with the lookup's outcome, and cache it unless the lookup is outdated.

        A failure never replaces a usable entry.

        Args:
            flight: The lookup. It is outdated if the user has been invalidated, or a later lookup
                has completed, since it started.
            outcome: The lookup's outcome.
            shared: The result from another server that contains the outcome, if any.
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
        # Renewing an entry with a different outcome would revive decisions based on the old one.
        if entry is None or entry.outcome != outcome:
            entry = CacheEntry(user, outcome)
        self._renew(entry, shared, flight.started_at)
        self._put(entry)
        return entry

    def uncached(
        self,
        user: str,
        outcome: Outcome,
        shared: SharedResult | None = None,
        *,
        started_at: float | None = None,
    ) -> CacheEntry:
        """Return a new entry with the outcome, without adding it to the cache."""
        entry = self._renew(CacheEntry(user, outcome), shared, started_at)
        entry.fresh_until = NEVER
        return entry

    def invalidate(self, users: Collection[str]) -> int:
        """Invalidate users; return how many had usable entries."""
        now = self.clock()
        dropped = [self._groups.drop(user) or self._negative.drop(user) for user in set(users)]
        return sum(self._expire(entry, now) for entry in dropped if entry is not None)

    def invalidate_all(self) -> Iterator[int]:
        """Invalidate all entries in steps, yielding the number of usable entries in each step.

        The cache is emptied immediately, but holders of an entry may use it until the step that
        expires it.
        """
        return self._drain([*self._groups.take_all(), *self._negative.take_all()], self.clock())

    def _drain(self, shards: "list[_Shard]", now: float) -> Iterator[int]:
        for shard in shards:
            while shard:
                size = min(INVALIDATE_STEP, len(shard))
                yield sum(self._expire(shard.popitem()[1], now) for _ in range(size))

    def _expire(self, entry: CacheEntry, now: float) -> bool:
        """Expire an invalidated entry; return whether it was usable."""
        until = entry.expires_at
        if isinstance(entry.outcome, KnownUser):
            failure_until = NEVER if entry.failure is None else entry.failure.expires_at
            until = max(entry.stale_until(self.options), failure_until)
        entry.expire()
        self.stats.invalidated += now < until
        return now < until

    def _put(self, entry: CacheEntry) -> None:
        groups, negative = self._groups, self._negative
        kind, other = (
            (groups, negative) if isinstance(entry.outcome, KnownUser) else (negative, groups)
        )
        replaced = other.drop(entry.user)
        if replaced is not None:
            replaced.expire()
        kind.put(entry, self.options.max_entries)

    def _store_failure(self, user: str, outcome: LookupFailure) -> CacheEntry:
        """Store a failed lookup, alongside the user's groups if they are kept despite failures."""
        now = self.clock()
        failure = self._renew(CacheEntry(user, outcome))
        entry = self.find(user)
        if entry is None or not self._outlives_failures(entry, now):
            self._put(failure)
            return failure
        failure.fresh_until = NEVER
        if isinstance(entry.outcome, KnownUser):
            entry.failure = failure
            # Delay the next refresh until the failed lookup may be retried.
            retry_at = min(failure.expires_at, entry.expires_at)
            entry.fresh_until = max(entry.fresh_until, retry_at)
        return failure

    def _outlives_failures(self, entry: CacheEntry, now: float) -> bool:
        if isinstance(entry.outcome, KnownUser):
            return now < entry.stale_until(self.options)
        is_absence = isinstance(entry.outcome, NoSuchUser)
        return is_absence and now < entry.expires_at and entry.generation == self.lease.generation

    def _renew(
        self, entry: CacheEntry, shared: SharedResult | None = None, started_at: float | None = None
    ) -> CacheEntry:
        """Restart an entry's TTL, capped at the shared result's remaining TTL. Return the entry."""
        options = self.options
        refresh_after = 1.0
        if isinstance(entry.outcome, KnownUser):
            ttl = options.positive_ttl
            refresh_after = REFRESH_AFTER - REFRESH_SPREAD * self.chance()
        elif isinstance(entry.outcome, NoSuchUser):
            ttl = options.negative_ttl
        else:
            ttl = options.failure_ttl
        ttl *= 1 - TTL_JITTER * self.chance()
        now, wall = self.clock(), self.wall()
        if shared is not None:
            ttl = min(ttl, shared.expires_at - wall)
        if started_at is not None:
            ttl = max(0.0, min(ttl, started_at + self.lease.max_age - now))
        entry.is_shared = shared is not None
        entry.resolved_at_wall = wall if shared is None else shared.resolved_at
        entry.expires_at_wall = wall + ttl
        entry.expires_at = now + ttl
        entry.fresh_until = now + ttl * refresh_after
        entry.failure = None
        entry.generation = self.lease.generation
        return entry

    def _shared(self, known: KnownUser) -> KnownUser:
        """Intern an outcome to save memory, because many users have the same groups."""
        shared = self._shared_groups.get(known.groups)
        if shared is None:
            shared = KnownUser(tuple(map(sys.intern, known.groups)))
            self._shared_groups[shared.groups] = shared
        return shared


_Shard = LRUCache[str, CacheEntry]


class _Shards:
    """The shards of a cache. `put` limits the size, because an LRUCache's limit cannot change."""

    def __init__(self, count: int, occupancy: Occupancy) -> None:
        self.shards: list[_Shard] = [LRUCache(math.inf) for _ in range(count)]
        self._occupancy = occupancy

    def shard(self, user: str) -> _Shard:
        return self.shards[hash(user) % len(self.shards)]

    def put(self, entry: CacheEntry, max_entries: int) -> None:
        """Add an entry; evict the least recently used entries beyond `max_entries`."""
        shard = self.shard(entry.user)
        replaced = shard.get(entry.user)
        if replaced is None:
            self._occupancy.entries += 1
        elif replaced is not entry:
            replaced.expire()
        shard[entry.user] = entry
        for _ in range(MAX_EVICTIONS):
            if self._occupancy.entries <= max_entries or len(shard) == 1:
                return
            shard.popitem()[1].expire()
            self._occupancy.entries -= 1
            self._occupancy.evictions += 1

    def drop(self, user: str) -> CacheEntry | None:
        entry = self.shard(user).pop(user, None)
        if entry is not None:
            self._occupancy.entries -= 1
        return entry

    def take_all(self) -> list[_Shard]:
        shards, self.shards = self.shards, [LRUCache(math.inf) for _ in self.shards]
        self._occupancy.entries = 0
        return shards
