"""From a resolver to the groups of a partition: who stands in front of whom.

UserGroups  one per partition
  cache           answers that are known
  single flight   one look-up per user at a time
  refreshes       known users are looked up when there is time for it
SharedResolver  one per resolver, whatever number of partitions use it
  concurrency     so many look-ups at once
  breaker         none while the resolver fails
  time limit      each for so long
  faults          an exception is an answer, too
  resolver
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from queuegate_server.identity.cache import CacheEntry, CacheStats, GroupCache
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions
from queuegate_server.identity.refresh import RefreshQueue
from queuegate_server.identity.resolver import CouldNotAsk
from queuegate_server.identity.singleflight import FlightCancelled, SingleFlight

_GIVEN_UP: Final = CouldNotAsk(
    "the look-up was given up: the server ends, or the partition has got another resolver"
)


class Resolution(NamedTuple):
    """What is known of a user."""

    entry: CacheEntry
    cached: bool
    """It was known before the question."""
    stale: bool
    """It has expired, and the resolver could not be asked, or not yet."""


class GroupResolver:
    """The users of one partition and their groups. Used from one event loop."""

    def __init__(
        self,
        shared: GuardedResolver,
        cache: GroupCache,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take a resolver that other partitions may use as well, and the partition's cache.

        The clock is the monotonic one of the cache.
        """
        self.resolver_name = shared.name
        self._shared = shared
        self._cache = cache
        self._clock = clock
        self._flights = SingleFlight(self._look_up)
        self._refreshes = RefreshQueue(
            self._refresh,
            lambda: shared.most_refreshes,
            # Each user anew within a lifetime is no more work than there always is.
            lambda: cache.options.positive_ttl,
            clock=clock,
        )
        self._forgetting: set[asyncio.Task[int]] = set()
        self._opened = False
        self._closed = False

    async def open(self) -> None:
        """Get ready to answer. Raises what the resolver's `open` raises."""
        await self._shared.open()
        self._opened = True

    def cached(self, user: str) -> CacheEntry | None:
        """Return what is known of a user if it has not expired, else None.

        Needs the running loop: when groups come close to their expiry, a look-up starts
        in the background.
        """
        now = self._clock()
        entry = self._cache.get(user, now)
        if entry is not None and now >= entry.refresh_at:
            self._ask_again(user)
        return entry

    def immediate(self, user: str) -> CacheEntry | None:
        """Return what a resolver that asks nobody answers, None if it is another one."""
        outcome = None if self._closed else self._shared.resolve_now(user)
        if outcome is None:
            return None
        self._cache.count_miss()
        return self._cache.commit(self._cache.reserve(user), outcome)

    async def resolve(self, user: str, *, bypass_cache: bool = False) -> Resolution:
        """Return what is known of a user, asking the resolver if need be.

        If it cannot be asked, others come first, or it takes long, groups that have expired
        not too long ago are the answer; with `bypass_cache` it is what the resolver says, however
        long it takes, and a failure leaves what is known. Raises ValueError if the user name is
        empty.
        """
        if not user:
            raise ValueError("the user name is empty")
        if not bypass_cache and (answer := self._known(user)) is not None:
            return answer
        can_wait = bypass_cache or not self._cache.has_groups(user)
        wait = None if can_wait else self._cache.options.stale_wait
        try:
            entry = await self._entry(user, wait, alone=bypass_cache)
        except TimeoutError:
            groups = self._cache.stale_if_error(user)
            if groups is not None:
                return Resolution(groups[0], cached=True, stale=groups[1])
            entry = await self._entry(user, None)
        if isinstance(entry.outcome, CouldNotAsk) and not bypass_cache:
            groups = self._cache.stale_if_error(user)
            if groups is not None:
                return Resolution(groups[0], cached=True, stale=groups[1])
        return Resolution(entry, cached=False, stale=False)

    def invalidate(self, users: Collection[str]) -> int:
        """Forget users and return how many of them were known.

        Later questions get an answer that the resolver gives from now on.
        """
        for user in users:
            self._flights.detach(user)
        return self._cache.invalidate(users)

    async def invalidate_all(self) -> int:
        """Forget all users, as `invalidate` does, and let other work run meanwhile. Goes on
        if the caller goes away.
        """
        self._flights.detach_all()
        self._refreshes.clear()
        parts = self._cache.invalidate_all()

        async def forget() -> int:
            dropped = 0
            for part in parts:
                dropped += part
                await asyncio.sleep(0)
            return dropped

        task = asyncio.create_task(forget())
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)
        return await asyncio.shield(task)

    def reconfigure(self, options: CacheOptions) -> None:
        """Use other options of the cache from now on."""
        self._cache.reconfigure(options)

    def stats(self) -> CacheStats:
        """Return what the cache has done so far."""
        return self._cache.stats()

    @property
    def refreshes_waiting(self) -> int:
        """How many users of whom groups are known wait for their look-up."""
        return len(self._refreshes)

    async def close(self) -> None:
        """Stop looking up, and close the resolver if nobody else uses it. Takes at most
        three seconds; a second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        self._refreshes.close()
        await self._flights.close()
        if self._opened:
            await self._shared.close()

    async def _entry(self, user: str, seconds: float | None, *, alone: bool = False) -> CacheEntry:
        """Return what comes of a look-up. Raises TimeoutError; the look-up goes on."""
        try:
            async with asyncio.timeout(seconds):
                return await self._flights.join(user, alone=alone)
        except FlightCancelled:
            return self._cache.uncached(user, _GIVEN_UP)

    def _known(self, user: str) -> Resolution | None:
        entry = self.cached(user)
        if entry is not None:
            return Resolution(entry, cached=True, stale=False)
        failure = self._cache.negative_entry(user)
        # In an outage the answer to a look-up is known beforehand.
        if self._cache.has_groups(user) and (failure is not None or not self._ask_again(user)):
            groups = self._cache.stale_if_error(user)
            if groups is not None:
                return Resolution(groups[0], cached=True, stale=groups[1])
        if failure is not None:
            return Resolution(failure, cached=True, stale=False)
        self._cache.count_miss()
        return None

    def _ask_again(self, user: str) -> bool:
        """See to the look-up of a user of whom groups are known; say whether it is under way."""
        return user in self._flights or self._refreshes.ask(user)

    def _refresh(self, user: str) -> asyncio.Task[CacheEntry] | None:
        if user in self._flights or not self._cache.is_due(user):
            return None
        self._cache.count_refresh()
        return self._flights.start(user)

    async def _look_up(self, user: str) -> CacheEntry:
        """Ask the resolver and store its answer: the work of one flight."""
        lease = self._cache.reserve(user)
        try:
            outcome = await self._shared.resolve(user)
        except BaseException:
            self._cache.abort(lease)
            raise
        return self._cache.commit(lease, outcome)
