"""Remembers what resolvers answered: plain data, synchronous, with clocks passed in.

Three outcomes have three lifetimes. Groups that have expired stay for a while longer,
to be used if and only if the resolver cannot be asked: a definite "no such user" ends
them, a failed look-up is remembered beside them. Groups that a caller sent along never
enter: one caller's claim must not change another's answer.
"""

import random
from collections.abc import Callable, Collection, Iterator
from typing import Final

from queuegate_server.identity.cache_stats import CacheStats
from queuegate_server.identity.entries import NEVER, CacheEntry, Entries, SharedAnswers
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.resolver import CouldNotAsk, Found, NoSuchUser, Outcome
from queuegate_server.identity.use_order import TABLES

__all__ = ["CacheEntry", "GroupCache", "Lease"]

_JITTER: Final = 0.1
"""Lifetimes are shortened by up to this part: what came together need not expire together."""
_REFRESH_AFTER: Final = 0.8
"""The part of the lifetime of groups after which a use starts a refresh, at the latest."""
_REFRESH_SPREAD: Final = 0.3
"""Up to which part of the lifetime earlier: users who came together are asked for apart."""


class Lease:
    """A look-up under way. Its answer is stored unless it has become outdated."""

    __slots__ = ("outdated", "user")

    def __init__(self, user: str) -> None:
        self.user = user
        self.outdated = False


class GroupCache:
    """The answers about the users of one partition. Used from one event loop."""

    def __init__(
        self,
        options: CacheOptions,
        clock: Callable[[], float],
        wall: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Take a monotonic and a wall clock in seconds, and a source of numbers in [0, 1)."""
        self.options = options
        """Those in use. For reading only."""
        self._clock = clock
        self._wall = wall
        self._chance = chance
        self._entries = Entries(options.max_entries, options.max_stale)
        self._groups = self._entries.groups
        self._answers = SharedAnswers()
        self._under_way: dict[str, list[Lease]] = {}
        self._hits = 0
        self._negative_hits = 0
        self._failure_hits = 0
        self._stale_hits = 0
        self._misses = 0
        self._refreshes = 0
        self._invalidated = 0
        self._outdated = 0

    def reconfigure(self, options: CacheOptions) -> None:
        """Use other options from now on; entries keep the lifetimes they were given."""
        self.options = options
        self._entries.reconfigure(options.max_entries, options.max_stale)

    def get(self, user: str, now: float) -> CacheEntry | None:
        """Return the entry of a user unless it has expired. `now` is monotonic.

        It may be a negative one, or a remembered failure.
        """
        entry = self._groups.tables[hash(user) % TABLES].get(user)
        if entry is not None and now < entry.quiet_until:
            self._hits += 1
            return entry
        return self._fresh_with_more_care(user, now)

    def stale_if_error(self, user: str) -> tuple[CacheEntry, bool] | None:
        """Return groups to use although the resolver could not be asked, and whether
        they are stale; None if there are none.
        """
        entry = self._entries.get(user)
        if entry is None or not isinstance(entry.outcome, Found):
            return None
        now = self._clock()
        if now < entry.expires_at:
            self._hits += 1
            return entry, False
        if now < self._entries.stale_until(entry):
            self._stale_hits += 1
            self._entries.touch(entry, now)
            return entry, True
        return None

    def has_groups(self, user: str) -> bool:
        """Say whether `stale_if_error` would return any; nothing is counted."""
        entry = self._entries.get(user)
        return (
            entry is not None
            and isinstance(entry.outcome, Found)
            and self._clock() < self._entries.stale_until(entry)
        )

    def is_due(self, user: str) -> bool:
        """Say whether there are groups of a user that are to be asked for again."""
        entry = self._groups.get(user)
        return entry is not None and self._clock() >= entry.refresh_at

    def negative_entry(self, user: str) -> CacheEntry | None:
        """Return the failed look-up after which the user is not to be asked for yet."""
        entry = self._entries.get(user)
        if entry is None or entry.failure is None or self._clock() >= entry.failure.expires_at:
            return None
        return entry.failure

    def reserve(self, user: str) -> Lease:
        """Note that a look-up starts. Ends in `commit` or `abort`."""
        lease = Lease(user)
        self._under_way.setdefault(user, []).append(lease)
        return lease

    def abort(self, lease: Lease) -> None:
        """Note that a look-up ended without an answer."""
        leases = self._under_way[lease.user]
        leases.remove(lease)
        if not leases:
            del self._under_way[lease.user]

    def commit(self, lease: Lease, outcome: Outcome) -> CacheEntry:
        """Store the answer of a look-up and return it as an entry.

        It is not stored if the user was invalidated since, or has been answered for by a
        look-up that started later. A failure never replaces an answer that is of use.
        """
        older = self._under_way[lease.user]
        older = older[: older.index(lease)]
        self.abort(lease)
        if lease.outdated:
            self._outdated += 1
            return self.uncached(lease.user, outcome)
        if isinstance(outcome, CouldNotAsk):
            return self._store_failure(lease.user, outcome)
        for other in older:
            other.outdated = True
        now = self._clock()
        entry = self._entry(lease.user, self._answers.of(outcome), now)
        known = self._entries.get(lease.user)
        if known is not None and known.outcome is entry.outcome:
            # What was decided with it holds again, and the collector sees nothing new.
            known.renew(entry)
            entry = known
        self._entries.put(entry, now)
        return entry

    def uncached(self, user: str, outcome: Outcome) -> CacheEntry:
        """Return an answer as an entry that is in no cache."""
        entry = self._entry(user, outcome, self._clock())
        entry.refresh_at = NEVER
        return entry

    def invalidate(self, users: Collection[str] = ()) -> int:
        """Drop what is known of the users (none named: of all) and return how many were known.

        What is being looked up for them will not be stored.
        """
        if not users:
            return sum(self.invalidate_all())
        now = self._clock()
        dropped = sum(self._entries.discard(user, now) for user in set(users))
        self._outdate(users)
        self._invalidated += dropped
        return dropped

    def invalidate_all(self) -> Iterator[int]:
        """Drop what is known of all users. Nothing is found from now on, but what was decided
        may be used until the iterator, which gives parts of their number, has ended.
        """
        parts = self._entries.clear(self._clock())
        self._groups = self._entries.groups
        self._outdate(tuple(self._under_way))
        return self._counted(parts)

    def _counted(self, parts: Iterator[int]) -> Iterator[int]:
        for dropped in parts:
            self._invalidated += dropped
            yield dropped

    def _outdate(self, users: Collection[str]) -> None:
        for user in users:
            for lease in self._under_way.get(user, ()):
                lease.outdated = True

    def count_miss(self) -> None:
        """Count a caller who has to wait for the resolver."""
        self._misses += 1

    def count_refresh(self) -> None:
        """Count a look-up that is started ahead of expiry."""
        self._refreshes += 1

    def stats(self) -> CacheStats:
        """Return the counts so far."""
        return CacheStats(
            hits=self._hits,
            negative_hits=self._negative_hits,
            failure_hits=self._failure_hits,
            stale_hits=self._stale_hits,
            misses=self._misses,
            refreshes=self._refreshes,
            evictions=self._entries.evictions,
            invalidated=self._invalidated,
            outdated=self._outdated,
            entries=len(self._entries),
        )

    def _fresh_with_more_care(self, user: str, now: float) -> CacheEntry | None:
        entry = self._entries.get(user)
        if entry is None or now >= entry.expires_at:
            return None
        if isinstance(entry.outcome, Found):
            self._hits += 1
        elif isinstance(entry.outcome, NoSuchUser):
            self._negative_hits += 1
        else:
            self._failure_hits += 1
        if now >= entry.quiet_until:
            self._entries.touch(entry, now)
        return entry

    def _entry(self, user: str, outcome: Outcome, now: float) -> CacheEntry:
        options = self.options
        if isinstance(outcome, Found):
            lifetime = options.positive_ttl
            fresh_part = _REFRESH_AFTER - _REFRESH_SPREAD * self._chance()
        elif isinstance(outcome, NoSuchUser):
            lifetime, fresh_part = options.negative_ttl, 1.0
        else:
            lifetime, fresh_part = options.failure_ttl, 1.0
        lifetime *= 1 - _JITTER * self._chance()
        wall = self._wall()
        return CacheEntry(
            user,
            outcome,
            resolved_at_wall=wall,
            expires_at_wall=wall + lifetime,
            expires_at=now + lifetime,
            refresh_at=now + lifetime * fresh_part,
        )

    def _store_failure(self, user: str, outcome: CouldNotAsk) -> CacheEntry:
        now = self._clock()
        failure = self._entry(user, outcome, now)
        known = self._entries.get(user)
        if known is None or isinstance(known.outcome, CouldNotAsk):
            self._entries.put(failure, now)
        elif isinstance(known.outcome, Found) and now < self._entries.stale_until(known):
            failure.refresh_at = NEVER
            known.failure = failure
            # The next refresh waits until the resolver may be asked again.
            retry_at = min(failure.expires_at, known.expires_at)
            known.refresh_at = max(known.refresh_at, retry_at)
            self._entries.put(known, now)
        elif now < known.expires_at:
            failure.refresh_at = NEVER
        else:
            self._entries.put(failure, now)
        return failure
