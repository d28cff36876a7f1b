"""From a resolver to the groups of a partition: who stands in front of whom.

UserGroups  one per partition
  cache           answers that are known
  single flight   one look-up per user at a time
SharedResolver  one per resolver, whatever number of partitions use it
  concurrency     so many look-ups at once
  breaker         none while the resolver fails
  time limit      each for so long
  faults          an exception is an answer, too
  resolver
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from queuegate_server.identity.breaker import BehindBreaker, Breaker, BreakerState
from queuegate_server.identity.cache import CacheEntry, CacheStatistics, GroupCache
from queuegate_server.identity.limits import CatchFaults, ConcurrencyLimit, TimeLimit
from queuegate_server.identity.lookup import CouldNotAsk, Immediate, Outcome, Resolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.single_flight import FlightCancelled, SingleFlight

_LOG = logging.getLogger("queuegate_server.identity")

_CLOSE_SECONDS: Final = 2.0
_GIVEN_UP: Final = CouldNotAsk(
    "the look-up was given up: the server ends, or the partition has got another resolver"
)
_REFRESHES: Final = 8
"""One of so many turns is for users of whom groups are known."""


class SharedResolver:
    """A named resolver with its limits, used by the partitions that name it.

    Used from one event loop. `observe` is called with the outcome and the seconds of
    each look-up, refused ones included.
    """

    def __init__(
        self,
        name: str,
        resolver: Resolver,
        options: ResolverOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        observe: Callable[[Outcome, float], None] | None = None,
    ) -> None:
        self.name = name
        self._resolver = resolver
        self._resolve_now = resolver.resolve_now if isinstance(resolver, Immediate) else None
        self._clock = clock
        self._observe = observe
        self._breaker = Breaker(options.breaker_failures, options.breaker_pause, clock)
        self._limited = ConcurrencyLimit(
            options.max_concurrent,
            options.max_waiting,
            options.lookup_timeout,
            BehindBreaker(
                name,
                self._breaker,
                TimeLimit(name, options.lookup_timeout, CatchFaults(name, resolver)),
            ),
        )
        # The other turns are for those who wait, and the loop is for more than look-ups: when
        # all known users have expired at once, they are asked for bit by bit.
        self._most_refreshes = max(1, options.max_concurrent // _REFRESHES)
        self._opening = asyncio.Lock()
        self._users = 0

    @property
    def resolver(self) -> Resolver:
        """What is behind the limits."""
        return self._resolver

    @property
    def breaker_state(self) -> BreakerState:
        """Whether look-ups reach the resolver."""
        return self._breaker.state

    @property
    def takes_refreshes(self) -> bool:
        """True if a look-up that nobody needs would be let through, and in nobody's way."""
        return self.running < self._most_refreshes and not self._breaker.refuses

    @property
    def running(self) -> int:
        """How many look-ups are under way."""
        return self._limited.running

    @property
    def waiting(self) -> int:
        """How many look-ups wait for their turn."""
        return self._limited.waiting

    async def open(self) -> None:
        """Open the resolver for the first of its users.

        Raises what the resolver raises: a fault of the set-up, not of the source.
        """
        async with self._opening:
            if self._users == 0:
                await self._resolver.open()
            self._users += 1

    async def resolve(self, user: str) -> Outcome:
        """Look up one user; never raises."""
        start = self._clock()
        outcome = await self._limited.resolve(user)
        if self._observe is not None:
            self._observe(outcome, self._clock() - start)
        return outcome

    def resolve_now(self, user: str) -> Outcome | None:
        """Look up one user if the resolver needs to ask nobody, else None."""
        if self._resolve_now is None:
            return None
        outcome = self._resolve_now(user)
        if self._observe is not None:
            self._observe(outcome, 0.0)
        return outcome

    async def close(self) -> None:
        """Close the resolver after the last of its users, within two seconds."""
        async with self._opening:
            self._users -= 1
            if self._users:
                return
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._resolver.close()
            except Exception as error:
                _LOG.error("resolver %r did not close", self.name, exc_info=error)


class Answer(NamedTuple):
    """What is known of a user."""

    entry: CacheEntry
    cached: bool
    """It was known before the question."""
    stale: bool
    """It has expired, and the resolver could not be asked."""


class UserGroups:
    """The users of one partition and their groups. Used from one event loop."""

    def __init__(
        self,
        shared: SharedResolver,
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
        self._flights = SingleFlight(self._resolve)
        self._forgetting: set[asyncio.Task[int]] = set()
        self._opened = False
        self._closed = False

    async def open(self) -> None:
        """Get ready to answer. Raises what the resolver's `open` raises."""
        await self._shared.open()
        self._opened = True

    def cached(self, user: str, now: float) -> CacheEntry | None:
        """Return what is known of a user if it has not expired, else None.

        Needs the running loop: when groups come close to their expiry, a look-up starts
        in the background. `now` is monotonic.
        """
        entry = self._cache.fresh(user, now)
        if entry is not None and now >= entry.fresh_until:
            self._refresh(user)
        return entry

    def immediate(self, user: str) -> CacheEntry | None:
        """Return what a resolver that asks nobody answers, None if it is another one."""
        outcome = None if self._closed else self._shared.resolve_now(user)
        if outcome is None:
            return None
        self._cache.count_miss()
        return self._cache.store(self._cache.begin(user), outcome)

    async def lookup(self, user: str, *, bypass_cache: bool = False) -> Answer:
        """Return what is known of a user, asking the resolver if need be.

        If it cannot be asked, is busy or takes long, groups that have expired not too long ago are
        the answer; with `bypass_cache` it is what the resolver says, however long it takes,
        and a failure leaves what is known. Raises
        ValueError if the user name is empty.
        """
        if not user:
            raise ValueError("the user name is empty")
        if not bypass_cache and (answer := self._known(user)) is not None:
            return answer
        can_wait = bypass_cache or not self._cache.has_groups(user)
        wait = None if can_wait else self._cache.stale_wait
        try:
            entry = await self._entry(user, wait, alone=bypass_cache)
        except TimeoutError:
            groups = self._cache.groups_despite_failure(user)
            if groups is not None:
                return Answer(groups[0], cached=True, stale=groups[1])
            entry = await self._entry(user, None)
        if isinstance(entry.outcome, CouldNotAsk) and not bypass_cache:
            groups = self._cache.groups_despite_failure(user)
            if groups is not None:
                return Answer(groups[0], cached=True, stale=groups[1])
        return Answer(entry, cached=False, stale=False)

    def invalidate(self, users: Collection[str]) -> int:
        """Forget users (none named: all) and return how many were known.

        Whoever asks from now on gets an answer that the resolver gives from now on.
        """
        if users:
            for user in users:
                self._flights.detach(user)
        else:
            self._flights.detach_all()
        return self._cache.invalidate(users)

    async def invalidate_all(self) -> int:
        """Forget all users, as `invalidate` does, and let other work run meanwhile. Goes on
        if the caller goes away.
        """
        self._flights.detach_all()
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

    def use(self, options: CacheOptions) -> None:
        """Have other options of the cache from now on."""
        self._cache.use(options)

    def statistics(self) -> CacheStatistics:
        """Return what the cache has done so far."""
        return self._cache.statistics()

    async def close(self) -> None:
        """Stop looking up, and close the resolver if nobody else uses it. Takes at most
        three seconds; a second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        await self._flights.close()
        if self._opened:
            await self._shared.close()

    async def _entry(self, user: str, seconds: float | None, *, alone: bool = False) -> CacheEntry:
        """Return what comes of a look-up. Raises TimeoutError; the look-up goes on."""
        try:
            async with asyncio.timeout(seconds):
                return await self._flights.join(user, alone=alone)
        except FlightCancelled:
            return self._cache.unstored(user, _GIVEN_UP)

    def _known(self, user: str) -> Answer | None:
        entry = self.cached(user, self._clock())
        if entry is not None:
            return Answer(entry, cached=True, stale=False)
        failure = self._cache.remembered_failure(user)
        # In an outage the answer to a look-up is known beforehand; when the source is back,
        # or slow, all known users at once would keep each other waiting.
        if failure is not None or not self._shared.takes_refreshes:
            groups = self._cache.groups_despite_failure(user)
            if groups is not None:
                return Answer(groups[0], cached=True, stale=groups[1])
        if failure is not None:
            return Answer(failure, cached=True, stale=False)
        self._cache.count_miss()
        return None

    def _refresh(self, user: str) -> None:
        if self._shared.takes_refreshes and user not in self._flights and not self._closed:
            self._cache.count_refresh()
            self._flights.start(user)

    async def _resolve(self, user: str) -> CacheEntry:
        """Ask the resolver and store its answer: the work of one flight."""
        ticket = self._cache.begin(user)
        try:
            outcome = await self._shared.resolve(user)
        except BaseException:
            self._cache.abandon(ticket)
            raise
        return self._cache.store(ticket, outcome)
