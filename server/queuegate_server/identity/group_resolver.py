"""From a resolver to the groups of a partition's users.

GroupResolver    one per partition
  GroupCache       answers that are known
  SingleFlight     one lookup of a user at a time
  SharedGroups     answers that other servers of a fleet know
  RefreshQueue     looks known users up again, at a limited rate
ResolverChain    where the settings name a chain; asks several of the following
GuardedResolver  one per resolver, however many partitions use it
  Bulkhead             bounds the lookups at the same time
  CircuitBreaker       stops lookups while the resolver fails
  Timeout              bounds the time of a lookup
  ExceptionContainment turns an exception into a failed lookup
  the resolver
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, NamedTuple

from queuegate_server.identity.cache import CacheStats, GroupCache
from queuegate_server.identity.cache_shards import CacheEntry
from queuegate_server.identity.guarded_resolver import GroupSource
from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.refresh import RefreshQueue
from queuegate_server.identity.resolver import Found, LookupFailed
from queuegate_server.identity.shared import SharedAnswer, SharedGroups
from queuegate_server.identity.singleflight import FlightCancelled, SingleFlight

REFRESH_LIFE: Final = 0.5
"""A refresh takes the answer of another server that lives for this part of a lifetime at least."""
STALE_COPY_SECONDS: Final = 15.0
"""For how long another process may use a copy of groups while the resolver cannot be asked."""
_GIVEN_UP: Final = LookupFailed(
    "the lookup was abandoned: the server is stopping, or the partition has a new resolver"
)


class Resolution(NamedTuple):
    """The answer to a question about a user."""

    entry: CacheEntry
    cached: bool
    """It was known before the question."""
    stale: bool
    """It has expired, and the resolver could not be asked, or not yet."""


class GroupResolver:
    """The users of one partition and their groups."""

    def __init__(
        self,
        source: GroupSource,
        cache: GroupCache,
        *,
        clock: Callable[[], float] = time.monotonic,
        shared: SharedGroups | None = None,
    ) -> None:
        """Build it around a resolver that other partitions may use as well.

        Args:
            source: The resolver, or a chain.
            cache: The cache of this partition.
            clock: The monotonic clock of the cache.
            shared: The answers of other servers, asked for before the resolver is.
        """
        self.resolver_name = source.name
        self.is_local = source.is_local
        """Whether `resolve` finishes without suspending."""
        self.resolver_fingerprint = b"" if shared is None else shared.resolver_fingerprint
        """Empty if the groups are not shared."""
        self._source = source
        self._cache = cache
        self._clock = clock
        self._shared = shared
        self._flights = SingleFlight(
            self._look_up if shared is None else partial(self._find_shared, shared, 0.0)
        )
        self._refreshes = RefreshQueue(
            self._start_refresh, lambda: source.refresh_capacity, source.refresh_bucket
        )
        self._invalidations: set[asyncio.Task[int]] = set()
        self._closed = False

    def cached(self, user: str) -> CacheEntry | None:
        """Return the entry of a user; None if there is none or it has expired.

        When the entry is due, a refresh starts in the background. A local resolver needs none:
        asking it again takes no time, so a due entry counts as expired.
        """
        now = self._clock()
        self._cache.lease.end_if_expired(now)
        entry = self._cache.get(user, now)
        if entry is None or now < entry.refresh_at:
            return entry
        if self.is_local:
            return None
        self._refresh(user)
        return entry

    async def resolve(self, user: str, *, bypass_cache: bool = False) -> Resolution:
        """Return the answer about a user, asking the resolver if need be.

        Groups that have expired, but not too long ago, are the answer if the resolver cannot
        be asked, takes too long, or has others to look up first.

        Args:
            user: The user's name.
            bypass_cache: Ask the resolver in any case, however long it takes. A failure leaves
                the cache as it is.

        Raises:
            ValueError: The user name is empty.
        """
        if not user:
            raise ValueError("the user name is empty")
        if not bypass_cache and (known := self._known(user)) is not None:
            return known
        stale_wait = self._cache.options.stale_wait
        can_be_stale = (
            not bypass_cache
            and self._cache.has_groups(user)
            and not self._cache.must_revalidate(user)
        )
        try:
            entry = await self._ask(user, stale_wait if can_be_stale else None, alone=bypass_cache)
        except TimeoutError:
            stale = self._stale(user)
            if stale is not None:
                return stale
            entry = await self._ask(user, None)
        if isinstance(entry.outcome, LookupFailed) and not bypass_cache:
            stale = self._stale(user)
            if stale is not None:
                return stale
        return Resolution(entry, cached=False, stale=False)

    def copy_until(self, resolution: Resolution) -> float:
        """Return until when another process may use a copy of an answer (monotonic).

        That is its expiry, and a little later while the resolver cannot be asked: otherwise
        copies of all users would have to be renewed all the time.
        """
        entry = resolution.entry
        if self.is_local:
            return entry.refresh_at  # the resolver is asked again then
        if not isinstance(entry.outcome, Found):
            return entry.expires_at
        now, max_age = self._clock(), self._cache.lease.max_age
        seconds = min(STALE_COPY_SECONDS, max_age)
        stale_until = min(now + seconds, self._cache.stale_until(entry))
        if resolution.stale:
            return stale_until
        if max_age < math.inf:
            return entry.expires_at  # nobody would have the copy forgotten
        has_failed = entry.failure is not None and now < entry.failure.expires_at
        if has_failed or not self._source.refresh_capacity:
            return max(entry.expires_at, stale_until)
        return entry.expires_at

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups, not from the cache. Never raises."""
        await self._source.members(listing)

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of all users, not from the cache. Raises CannotListUsers.

        Args:
            limit: How many there may be.
        """
        return await self._source.all_users(limit)

    def invalidate(self, users: Collection[str]) -> int:
        """Forget users and return how many of them were known.

        Later questions get an answer that the resolver gives from now on.
        """
        for user in users:
            self._flights.detach(user)
        return self._cache.invalidate(users)

    async def invalidate_all(self) -> int:
        """Forget all users as `invalidate` does, in steps that let other work run.

        It is completed even if the caller is cancelled.
        """
        self._flights.detach_all()
        self._refreshes.clear()
        steps = self._cache.invalidate_all()

        async def complete() -> int:
            dropped = 0
            for step in steps:
                dropped += step
                await asyncio.sleep(0)
            return dropped

        task = asyncio.create_task(complete())
        self._invalidations.add(task)
        task.add_done_callback(self._invalidations.discard)
        return await asyncio.shield(task)

    def end_lease(self) -> None:
        """Let no question join a lookup that is under way, nor use its answer."""
        self._flights.detach_all()
        self._cache.outdate_lookups()

    def reconfigure(self, options: CacheOptions) -> None:
        """Use other options of the cache from now on."""
        self._cache.reconfigure(options)

    @property
    def stats(self) -> CacheStats:
        """The counts of the cache."""
        return self._cache.stats

    @property
    def refreshes_waiting(self) -> int:
        """How many known users are queued for a refresh."""
        return len(self._refreshes)

    async def close(self) -> None:
        """Stop looking up; takes a second at most."""
        self._closed = True
        self._refreshes.close()
        await self._flights.close()

    def _known(self, user: str) -> Resolution | None:
        entry = self.cached(user)
        if entry is not None:
            return Resolution(entry, cached=True, stale=False)
        failure = self._cache.negative_entry(user)
        # While the resolver is unavailable or busy, a lookup would not change the answer.
        if self._cache.has_groups(user) and (
            failure is not None
            or (
                not self._cache.must_revalidate(user)
                and (not self._refresh(user) or self._source.waiting)
            )
        ):
            stale = self._stale(user)
            if stale is not None:
                return stale
        if failure is not None:
            return Resolution(failure, cached=True, stale=False)
        self._cache.stats.misses += 1
        return None

    def _stale(self, user: str) -> Resolution | None:
        groups = self._cache.stale_if_error(user)
        return None if groups is None else Resolution(groups[0], cached=True, stale=groups[1])

    def _refresh(self, user: str) -> bool:
        """Start or queue the lookup of a known user; return False if it is not under way yet."""
        return self.is_local or user in self._flights or self._refreshes.add(user)

    def _start_refresh(self, user: str) -> asyncio.Task[CacheEntry] | None:
        if user in self._flights or not self._cache.is_due(user):
            return None
        self._cache.stats.refreshes += 1
        if self._shared is None:
            return self._flights.start(user)
        min_life = self._cache.options.positive_ttl * REFRESH_LIFE
        return self._flights.start(user, partial(self._find_shared, self._shared, min_life))

    async def _ask(self, user: str, seconds: float | None, *, alone: bool = False) -> CacheEntry:
        """Return the answer of the resolver.

        Raises:
            TimeoutError: It did not come in time; the lookup goes on.
        """
        if self.is_local and not self._closed:
            return await self._look_up(user)
        if self._cache.is_too_slow(user):
            self._flights.detach(user)
        try:
            async with asyncio.timeout(seconds):
                return await self._flights.join(user, alone=self._look_up if alone else None)
        except FlightCancelled:
            return self._cache.uncached(user, _GIVEN_UP)

    async def _find_shared(self, shared: SharedGroups, min_life: float, user: str) -> CacheEntry:
        """Take the answer of another server if it lives for `min_life` seconds at least; otherwise
        ask the resolver.
        """
        reservation = self._cache.reserve(user)
        try:
            answer = await shared.get(user)
        except BaseException:
            self._cache.abort(reservation)
            raise
        if answer is not None and answer.expires_at - self._cache.wall() >= min_life:
            return self._cache.commit_shared(reservation, answer)
        self._cache.abort(reservation)
        return await self._look_up(user)

    async def _look_up(self, user: str) -> CacheEntry:
        """Ask the resolver and store its answer, here and for other servers."""
        reservation = self._cache.reserve(user)
        publish = None if self._shared is None else self._shared.begin(user)
        try:
            outcome = await self._source.resolve(user)
        except BaseException:
            self._cache.abort(reservation)
            raise
        entry = self._cache.commit(reservation, outcome)
        if publish is not None and not isinstance(outcome, LookupFailed):
            publish(SharedAnswer(outcome, entry.resolved_at_wall, entry.expires_at_wall))
        return entry
