"""Resolves users' groups for a partition.

Each component calls the next one:

GroupResolver    one per partition; uses cached and stale groups, and starts refreshes
  GroupCache       stores the lookup outcomes
  RefreshQueue     looks up cached users again, at a limited rate
  SharedGroups   groups from other servers in the fleet
SingleFlight     runs at most one lookup per user
ResolverChain    queries several guarded resolvers, if the settings name a chain
GuardedResolver  one per resolver, shared by partitions
  Bulkhead             bounds concurrent lookups
  CircuitBreaker       stops lookups while the resolver fails
  Timeout              bounds the duration of a lookup
  ExceptionContainment turns exceptions into failed lookups
the resolver
"""

import asyncio
import contextlib
import math
from collections.abc import Collection
from functools import partial
from typing import Final, NamedTuple

from queuegate_server.identity.cache import CacheEntry, CacheStats, GroupCache
from queuegate_server.identity.members import MemberListing, UserListing
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.refresh import RefreshQueue
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser
from queuegate_server.identity.resolver_chain import GroupSource
from queuegate_server.identity.shared import SharedGroups, SharedResult
from queuegate_server.runtime.pacing import Pace
from queuegate_server.runtime.single_flight import Flight, FlightCancelled, SingleFlight

REFRESH_LIFE: Final = 0.5
"""A refresh uses another server's result if at least this fraction of its TTL remains."""
STALE_WAIT_SECONDS: Final = 0.25
"""How long a caller waits for a lookup before expired groups are used; the lookup continues. Most
lookups take less, and callers of a scheduler's hook should not wait for longer."""
STALE_COPY_SECONDS: Final = 15.0
"""How long other processes may use a copy of stale groups while the resolver is unavailable."""
_NO_LIMIT: Final = contextlib.nullcontext()
_ABANDONED: Final = LookupFailure(
    "the lookup was abandoned: the server is stopping, or the partition has a new resolver"
)


class Resolution(NamedTuple):
    """The cache entry to use for a user, and how it was obtained."""

    entry: CacheEntry
    """The entry. Invalidating the user expires it."""
    cached: bool
    """Whether the entry was in this process's cache, or in the fleet's."""
    stale: bool
    """Whether the entry was used after its expiry because the resolver failed or was slow."""


class GroupResolver:
    """Resolves users' groups for a partition.

    Args:
        source: The resolver or chain.
        cache: The partition's cache.
        shared: Groups from other servers, used before the resolver is queried.
    """

    def __init__(
        self,
        source: GroupSource,
        cache: GroupCache,
        *,
        shared: SharedGroups | None = None,
    ) -> None:
        self.resolver_name = source.name
        self.resolver_fingerprint = b"" if shared is None else shared.resolver_fingerprint
        """A fingerprint of the resolver's settings; empty if the groups are not shared."""
        self._is_local = source.is_local
        self._source = source
        self._cache = cache
        self._lease = cache.lease
        self._clock = cache.clock
        self._shared = shared
        self._flights = SingleFlight(self._look_up, cache.clock, has_tasks=not source.is_local)
        self._refreshes = RefreshQueue(self._start_refresh, source.load)
        self._invalidations: set[asyncio.Task[int]] = set()

    def known(self, user: str) -> CacheEntry | None:
        """Return a user's cache entry; None if it is missing or has expired.

        If the entry is due for a refresh, starts one in the background. A local resolver is instead
        queried immediately if the entry is missing, expired or due for a refresh.
        """
        now, lease = self._clock(), self._lease
        if now >= lease.ends_at:
            lease.end_if_expired(now)
        entry = self._cache.find(user)
        if entry is not None:
            # The fast path.
            if now < entry.fresh_until and entry.generation == lease.generation:
                return self._use(entry)
            if self._outlives_refresh(entry, now):
                self._refresh(user)
                return self._use(entry)
        return self._query_local(user) if user and self._is_local else None

    def has_seen(self, user: str) -> bool:
        """Return whether a user's entry, expired or not, is in the cache. Local resolvers need
        none.
        """
        return self._is_local or self._cache.find(user) is not None

    async def resolve(self, user: str, *, bypass_cache: bool = False) -> Resolution:
        """Resolve a user, querying the resolver if necessary.

        If the resolver is unavailable, too slow or busy with other users, groups that expired no
        more than `max_stale` ago are used.

        Args:
            user: The user's name.
            bypass_cache: Always wait for the resolver. A failure leaves the cache unchanged.

        Raises:
            ValueError: The user name is empty.
        """
        if not user:
            raise ValueError("the user name is empty")
        if bypass_cache:
            return await self._query(user)
        now, lease = self._clock(), self._lease
        if now >= lease.ends_at:
            lease.end_if_expired(now)
        entry = self._cache.find(user)
        patience: float | None = None
        if entry is not None:
            cached = self._from_cache(entry, now)
            if cached is not None:
                return cached
            if self._has_groups(entry, now) and not self._must_revalidate(entry, now):
                patience = STALE_WAIT_SECONDS
        self._cache.stats.misses += 1
        try:
            async with _NO_LIMIT if patience is None else asyncio.timeout(patience):
                entry = await self._flights.join(user, max_age=lease.max_age)
        except TimeoutError:
            if patience is None:
                raise
            return self._stale(user) or await self.resolve(user)
        except FlightCancelled:
            entry = self._cache.uncached(user, _ABANDONED)
        failed = isinstance(entry.outcome, LookupFailure)
        return (failed and self._stale(user)) or Resolution(
            entry, cached=entry.is_shared, stale=False
        )

    def copy_until(self, resolution: Resolution) -> float:
        """Return when other processes must discard their copies of a resolution (monotonic clock).

        Copies expire with the entry. While the resolver is unavailable, they expire slightly later
        to avoid constant renewal.
        """
        entry = resolution.entry
        if self._is_local:
            return entry.fresh_until  # the resolver is queried again then
        if not isinstance(entry.outcome, KnownUser):
            return entry.expires_at
        now, max_age = self._clock(), self._lease.max_age
        seconds = min(STALE_COPY_SECONDS, max_age)
        stale_until = min(now + seconds, entry.stale_until(self._cache.options))
        if resolution.stale:
            return stale_until
        if max_age < math.inf:
            return entry.expires_at  # not extended, because this server might miss an invalidation
        has_failed = entry.failure is not None and now < entry.failure.expires_at
        if has_failed or not self._source.load.capacity:
            return max(entry.expires_at, stale_until)
        return entry.expires_at

    async def members(self, listing: MemberListing) -> None:
        """List group members, bypassing the cache. Never raises."""
        await self._source.members(listing)

    async def all_users(self, limit: int) -> UserListing:
        """Return all users. Raises CannotListUsers if there are more than `limit`."""
        return await self._source.all_users(limit)

    def invalidate(self, users: Collection[str]) -> int:
        """Invalidate users; return how many had usable entries.

        Later requests use only lookups started after this call.
        """
        for user in users:
            self._flights.outdate(user)
        return self._cache.invalidate(users)

    async def invalidate_all(self) -> int:
        """Invalidate all users; return how many had usable entries.

        Works in steps, yielding to other tasks. Completes even if the caller is cancelled.
        """
        self._flights.outdate_all()
        self._refreshes.clear()
        steps = self._cache.invalidate_all()

        async def complete() -> int:
            dropped = 0
            pace = Pace()
            for step in steps:
                dropped += step
                await pace.pause_if_due()
            return dropped

        task = asyncio.create_task(complete())
        self._invalidations.add(task)
        task.add_done_callback(self._invalidations.discard)
        return await asyncio.shield(task)

    def end_lease(self) -> None:
        """Prevent lookups in progress from being joined by later callers, and from being cached."""
        self._flights.outdate_all()

    def reconfigure(self, options: CacheOptions) -> None:
        """Apply new cache options."""
        self._cache.options = options

    @property
    def stats(self) -> CacheStats:
        """The cache's counters."""
        return self._cache.stats

    @property
    def refreshes_waiting(self) -> int:
        """The number of users queued for a refresh."""
        return len(self._refreshes)

    async def close(self) -> None:
        """Stop all lookups within a second."""
        self._refreshes.close()
        await self._flights.close()

    async def _query(self, user: str) -> Resolution:
        """Query the resolver even if the cache has a usable entry."""
        try:
            entry = await self._flights.join(user, alone=partial(self._look_up, min_life=None))
        except FlightCancelled:
            entry = self._cache.uncached(user, _ABANDONED)
        return Resolution(entry, cached=False, stale=False)

    async def _look_up(self, flight: Flight, min_life: float | None = 0.0) -> CacheEntry:
        """Look up a user; return the cache entry.

        Uses another server's result if its remaining TTL suffices. Otherwise, queries the resolver
        and shares the result. A result is not cached if, since the lookup started, the user has
        been invalidated or a newer lookup has completed.

        Args:
            flight: The lookup, with the user's name as its key.
            min_life: The minimum remaining TTL, in seconds, for using another server's result; None
                to always query the resolver.
        """
        user, cache, shared = flight.key, self._cache, self._shared
        publish = None
        if shared is not None:
            result = None if min_life is None else await shared.get(user)
            if result is not None and result.expires_at - cache.wall() >= (min_life or 0.0):
                # Do not supersede other lookups, because their results may be newer.
                return cache.store(flight, result.outcome, result)
            publish = shared.begin(user)
        outcome = await self._source.resolve(user)
        if isinstance(outcome, LookupFailure):
            return cache.store(flight, outcome)
        if not flight.is_outdated:
            flight.supersede()
        entry = cache.store(flight, outcome)
        if publish is not None:
            publish(SharedResult(outcome, entry.resolved_at_wall, entry.expires_at_wall))
        return entry

    def _from_cache(self, entry: CacheEntry, now: float) -> Resolution | None:
        """Return the entry as a resolution; None if the user must be looked up."""
        is_fresh = now < entry.fresh_until and entry.generation == self._lease.generation
        if is_fresh or self._outlives_refresh(entry, now):
            if not is_fresh:
                self._refresh(entry.user)
            return Resolution(self._use(entry), cached=True, stale=False)
        failure = self._failure(entry, now)
        # While the resolver is unavailable or busy, use the groups without waiting for a lookup.
        if self._has_groups(entry, now) and (
            failure is not None
            or (
                not self._must_revalidate(entry, now)
                and (not self._refresh(entry.user) or self._source.load.waiting)
            )
        ):
            return self._despite_failure(entry, now)
        return None if failure is None else Resolution(failure, cached=True, stale=False)

    def _stale(self, user: str) -> Resolution | None:
        """Return a user's cached groups if they may be used after a failed or slow lookup."""
        entry, now = self._cache.find(user), self._clock()
        if entry is None or not self._has_groups(entry, now):
            return None
        return self._despite_failure(entry, now)

    def _despite_failure(self, entry: CacheEntry, now: float) -> Resolution:
        is_stale = now >= entry.expires_at or entry.generation != self._lease.generation
        self._cache.stats.stale_hits += is_stale
        self._cache.stats.hits += not is_stale
        return Resolution(entry, cached=True, stale=is_stale)

    def _outlives_refresh(self, entry: CacheEntry, now: float) -> bool:
        """Return whether an entry may be used while it is refreshed in the background."""
        return (
            not self._is_local
            and now < entry.expires_at
            and entry.generation == self._lease.generation
        )

    def _failure(self, entry: CacheEntry, now: float) -> CacheEntry | None:
        """Return the user's failed lookup if it is too early to retry it; otherwise None."""
        failure = entry.failure
        if failure is None or now >= failure.expires_at:
            return None
        return failure if failure.generation == self._lease.generation else None

    def _has_groups(self, entry: CacheEntry, now: float) -> bool:
        """Return whether an entry's groups may be used while the resolver is unavailable."""
        has_groups = isinstance(entry.outcome, KnownUser)
        return has_groups and now < entry.stale_until(self._cache.options)

    def _must_revalidate(self, entry: CacheEntry, now: float) -> bool:
        """Return whether this server may have missed an invalidation of the entry."""
        return entry.generation != self._lease.generation or (
            self._lease.max_age < math.inf and now >= entry.expires_at
        )

    def _use(self, entry: CacheEntry) -> CacheEntry:
        stats = self._cache.stats
        if isinstance(entry.outcome, KnownUser):
            stats.hits += 1
        elif isinstance(entry.outcome, NoSuchUser):
            stats.negative_hits += 1
        else:
            stats.failure_hits += 1
        return entry

    def _query_local(self, user: str) -> CacheEntry | None:
        """Query a local resolver; return None if it suspends, contrary to its contract."""
        resolving = self.resolve(user)
        try:
            resolving.send(None)
        except StopIteration as done:
            resolution: Resolution = done.value
            return resolution.entry
        resolving.close()
        return None

    def _refresh(self, user: str) -> bool:
        return self._is_local or user in self._flights or self._refreshes.add(user)

    def _start_refresh(self, user: str) -> asyncio.Task[CacheEntry] | None:
        entry = self._cache.find(user)
        if user in self._flights or entry is None or not isinstance(entry.outcome, KnownUser):
            return None
        if self._clock() < entry.fresh_until and entry.generation == self._lease.generation:
            return None
        self._cache.stats.refreshes += 1
        min_life = self._cache.options.positive_ttl * REFRESH_LIFE
        return self._flights.start(user, partial(self._look_up, min_life=min_life))
