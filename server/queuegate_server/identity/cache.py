"""The group cache of one partition: what the resolver said about its users.

`cachetools` holds the entries in the order of their use. This module adds what it cannot know:
three outcomes with three lifetimes, expired groups that are used while the resolver cannot be
asked (stale-if-error, RFC 5861), reservations that keep an outdated answer out, and statistics.
Users with groups, and negative entries, have a bound each: a flood of unknown names evicts no user.
Groups that a caller sent along never enter: one caller's claim must not change another's answer.
"""

import math
import random
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from queuegate_server.identity.cache_shards import (
    MAX_SHARDS,
    MIN_SHARD_ENTRIES,
    NEVER,
    CacheEntry,
    Occupancy,
    Shard,
    Shards,
)
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import Found, LookupFailed, NoSuchUser, Outcome
from queuegate_server.identity.shared import CacheLease, EndlessLease, SharedAnswer

TTL_JITTER: Final = 0.1
"""Lifetimes are shortened by up to this part, so that entries stored together expire apart."""
REFRESH_AFTER: Final = 0.8
"""A use after this part of the lifetime of groups starts a refresh, at the latest."""
REFRESH_SPREAD: Final = 0.3
"""A refresh may be due earlier by up to this part of the lifetime, for the same reason."""

INVALIDATE_STEP: Final = 250
"""How many entries `invalidate_all` drops in one step: less than 1 ms of work."""
MAX_SHARED_GROUPS: Final = 4096
"""How many distinct group lists are remembered to be shared between users."""


@dataclass(slots=True, eq=False)
class Reservation:
    """A lookup under way. Its answer is stored unless the reservation has become outdated."""

    user: str
    started_at: float
    """Monotonic."""
    outdated: bool = False


@dataclass(slots=True)
class CacheStats:
    """Counts since the cache was built."""

    hits: int = 0
    """The groups were known."""
    negative_hits: int = 0
    """The user was known not to exist."""
    failure_hits: int = 0
    """The resolver was known to be unavailable."""
    stale_hits: int = 0
    """Expired groups were used because the resolver could not be asked."""
    misses: int = 0
    """The caller had to wait for the resolver."""
    refreshes: int = 0
    """Lookups of users whose groups were known: ahead of their expiry, or after it."""
    invalidated: int = 0
    """Entries dropped on request."""
    outdated: int = 0
    """Answers that were not stored because the user was invalidated, or asked for again,
    after the lookup had started."""
    groups: Occupancy = field(default_factory=Occupancy)
    """Users whose groups are known."""
    negative: Occupancy = field(default_factory=Occupancy)
    """Names of no user, and names that could not be looked up."""


class GroupCache:
    """Remembers the groups of at most `max_entries` users, and as many names without groups."""

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
            options: Lifetimes and bounds.
            clock: A monotonic clock, in seconds.
            wall: The wall clock, in seconds.
            chance: A source of random numbers in [0, 1).
            lease: Says which entries must be asked for again; None: none before they expire.
        """
        self.lease = lease or EndlessLease()
        self.options = options
        self._clock = clock
        self.wall: Final = wall
        """The wall clock, in seconds."""
        self._chance = chance
        shards = max(1, min(MAX_SHARDS, options.max_entries // MIN_SHARD_ENTRIES))
        self.stats = CacheStats()
        self._groups = Shards(shards, self.stats.groups)
        self._negative = Shards(shards, self.stats.negative)
        self._reservations: dict[str, list[Reservation]] = {}
        self._shared_groups: LRUCache[tuple[str, ...], Found] = LRUCache(MAX_SHARED_GROUPS)

    def reconfigure(self, options: CacheOptions) -> None:
        """Use other options from now on. Entries keep their lifetimes; those in excess of a
        lower bound are evicted as others are stored.
        """
        self.options = options

    def get(self, user: str, now: float) -> CacheEntry | None:
        """Return the entry of a user unless it has expired: groups, the fact that there is no
        such user, or a failure. `now` is monotonic.
        """
        entry = self._find(user)
        if entry is None or now >= entry.expires_at or entry.generation != self.lease.generation:
            return None
        if isinstance(entry.outcome, Found):
            self.stats.hits += 1
        elif isinstance(entry.outcome, NoSuchUser):
            self.stats.negative_hits += 1
        else:
            self.stats.failure_hits += 1
        return entry

    def stale_if_error(self, user: str) -> tuple[CacheEntry, bool] | None:
        """Return the groups to use if the resolver cannot be asked, and whether they are stale."""
        entry = self._find_groups(user)
        if entry is None:
            return None
        now = self._clock()
        if now < entry.expires_at and entry.generation == self.lease.generation:
            self.stats.hits += 1
            return entry, False
        if now < self.stale_until(entry):
            self.stats.stale_hits += 1
            return entry, True
        return None

    def has_groups(self, user: str) -> bool:
        """Return whether `stale_if_error` would return groups, without counting a use."""
        entry = self._find_groups(user)
        return entry is not None and self._clock() < self.stale_until(entry)

    def stale_until(self, entry: CacheEntry) -> float:
        """Return until when groups are used if the resolver cannot be asked (monotonic)."""
        return entry.expires_at + self.options.max_stale

    def is_due(self, user: str) -> bool:
        """Return whether the groups of a user are known and due for a refresh."""
        entry = self._find_groups(user)
        return entry is not None and (
            self._clock() >= entry.refresh_at or entry.generation != self.lease.generation
        )

    def must_revalidate(self, user: str) -> bool:
        """Return whether groups of the user are known that may have been invalidated unnoticed."""
        entry = self._find_groups(user)
        return entry is not None and (
            entry.generation != self.lease.generation
            or (self.lease.max_age < math.inf and self._clock() >= entry.expires_at)
        )

    def negative_entry(self, user: str) -> CacheEntry | None:
        """Return the failed lookup after which the user must not be looked up yet."""
        entry = self._find(user)
        failure = None if entry is None else entry.failure
        if failure is None or self._clock() >= failure.expires_at:
            return None
        return failure if failure.generation == self.lease.generation else None

    def reserve(self, user: str) -> Reservation:
        """Register a lookup that starts. It ends with `commit` or `abort`."""
        reservation = Reservation(user, self._clock())
        self._reservations.setdefault(user, []).append(reservation)
        return reservation

    def is_too_slow(self, user: str) -> bool:
        """Return whether the lookup under way that was begun last takes longer than its answer may
        be used.
        """
        under_way = self._reservations.get(user)
        if not under_way:
            return False
        return self._clock() >= under_way[-1].started_at + self.lease.max_age

    def abort(self, reservation: Reservation) -> None:
        """End a lookup without an answer."""
        reservations = self._reservations[reservation.user]
        reservations.remove(reservation)
        if not reservations:
            del self._reservations[reservation.user]

    def commit(self, reservation: Reservation, outcome: Outcome) -> CacheEntry:
        """Store the answer of a lookup and return it as an entry.

        It is not stored if the user was invalidated since the lookup started, or a lookup
        that started later has been answered. A failure never replaces a usable answer.
        """
        reservations = self._reservations[reservation.user]
        earlier = reservations[: reservations.index(reservation)]
        self.abort(reservation)
        if reservation.outdated:
            self.stats.outdated += 1
            return self.uncached(reservation.user, outcome, started_at=reservation.started_at)
        if isinstance(outcome, LookupFailed):
            return self._put_failure(reservation.user, outcome)
        for other in earlier:
            other.outdated = True
        return self._put_answer(reservation, outcome)

    def commit_shared(self, reservation: Reservation, answer: SharedAnswer) -> CacheEntry:
        """Store an answer that another server got, and return it as an entry.

        It is not stored where `commit` would not store one. Lookups that started earlier may
        still replace it: it may be older than they are.
        """
        self.abort(reservation)
        if reservation.outdated:
            self.stats.outdated += 1
            return self.uncached(
                reservation.user, answer.outcome, answer, started_at=reservation.started_at
            )
        return self._put_answer(reservation, answer.outcome, answer)

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
        entry.refresh_at = NEVER
        return entry

    def invalidate(self, users: Collection[str]) -> int:
        """Drop the entries of some users and return how many were usable.

        The answers of lookups under way for them will not be stored.
        """
        now = self._clock()
        dropped = 0
        for user in set(users):
            entry = self._groups.drop(user) or self._negative.drop(user)
            if entry is not None:
                dropped += now < self._usable_until(entry)
            self._outdate(user)
        self.stats.invalidated += dropped
        return dropped

    def outdate_lookups(self) -> None:
        """Do not store the answers of lookups under way: they may be from before a change."""
        for user in self._reservations:
            self._outdate(user)

    def invalidate_all(self) -> Iterator[int]:
        """Drop all entries, in steps, and yield how many usable ones each step dropped.

        The cache is empty at once. Decisions made with an entry may be used until the iterator
        is exhausted.
        """
        shards = [*self._groups.take_all(), *self._negative.take_all()]
        self.outdate_lookups()
        return self._drain(shards, self._clock())

    def _drain(self, shards: list[Shard], now: float) -> Iterator[int]:
        while shards:
            shard = shards.pop()
            while shard:
                step = [shard.popitem()[1] for _ in range(min(INVALIDATE_STEP, len(shard)))]
                dropped = sum(now < self._usable_until(entry) for entry in step)
                self.stats.invalidated += dropped
                yield dropped

    def _outdate(self, user: str) -> None:
        for reservation in self._reservations.get(user, ()):
            reservation.outdated = True

    def _find(self, user: str) -> CacheEntry | None:
        """Return the entry of a user, expired or not, as the one used last."""
        try:
            return self._groups.shard(user)[user]
        except KeyError:
            return self._negative.shard(user).get(user)

    def _find_groups(self, user: str) -> CacheEntry | None:
        return self._groups.shard(user).get(user)

    def _put_answer(
        self,
        reservation: Reservation,
        outcome: Found | NoSuchUser,
        shared: SharedAnswer | None = None,
    ) -> CacheEntry:
        user = reservation.user
        if isinstance(outcome, Found):
            outcome = self._shared(outcome)
        entry = self._find(user)
        if entry is None or entry.outcome != outcome:
            entry = CacheEntry(user, outcome)
        # Otherwise decisions that were made with the entry hold again.
        self._renew(entry, shared, reservation.started_at)
        self._put(entry)
        return entry

    def _put(self, entry: CacheEntry) -> None:
        groups, negative = self._groups, self._negative
        kind, other = (groups, negative) if isinstance(entry.outcome, Found) else (negative, groups)
        other.drop(entry.user)
        kind.put(entry, self.options.max_entries)

    def _put_failure(self, user: str, outcome: LookupFailed) -> CacheEntry:
        now = self._clock()
        failure = self._renew(CacheEntry(user, outcome))
        known = self._find(user)
        if known is None or now >= self._answer_until(known):
            self._put(failure)
            return failure
        failure.refresh_at = NEVER
        if isinstance(known.outcome, Found):
            known.failure = failure
            # The next refresh waits until the resolver may be asked again.
            retry_at = min(failure.expires_at, known.expires_at)
            known.refresh_at = max(known.refresh_at, retry_at)
        return failure

    def _renew(
        self,
        entry: CacheEntry,
        shared: SharedAnswer | None = None,
        started_at: float | None = None,
    ) -> CacheEntry:
        """Give an entry the lifetime of an answer that has just come, or what is left of that of
        a shared one. `started_at` is when the resolver was asked.
        """
        options = self.options
        refresh_after = 1.0
        if isinstance(entry.outcome, Found):
            ttl = options.positive_ttl
            refresh_after = REFRESH_AFTER - REFRESH_SPREAD * self._chance()
        elif isinstance(entry.outcome, NoSuchUser):
            ttl = options.negative_ttl
        else:
            ttl = options.failure_ttl
        ttl *= 1 - TTL_JITTER * self._chance()
        now, wall = self._clock(), self.wall()
        if shared is not None:
            ttl = min(ttl, shared.expires_at - wall)
        if started_at is not None:
            ttl = max(0.0, min(ttl, started_at + self.lease.max_age - now))
        entry.resolved_at_wall = wall if shared is None else shared.resolved_at
        entry.expires_at_wall = wall + ttl
        entry.expires_at = now + ttl
        entry.refresh_at = now + ttl * refresh_after
        entry.failure = None
        entry.generation = self.lease.generation
        return entry

    def _shared(self, found: Found) -> Found:
        """Return an equal outcome that other entries have: many users have few group lists."""
        shared = self._shared_groups.get(found.groups)
        if shared is None:
            shared = Found(tuple(map(sys.intern, found.groups)))
            self._shared_groups[shared.groups] = shared
        return shared

    def _answer_until(self, entry: CacheEntry) -> float:
        """Return the time until which a failure does not replace the entry."""
        if isinstance(entry.outcome, Found):
            return self.stale_until(entry)
        if isinstance(entry.outcome, NoSuchUser) and entry.generation == self.lease.generation:
            return entry.expires_at
        return NEVER

    def _usable_until(self, entry: CacheEntry) -> float:
        if not isinstance(entry.outcome, Found):
            return entry.expires_at
        failure_until = NEVER if entry.failure is None else entry.failure.expires_at
        return max(self.stale_until(entry), failure_until)
