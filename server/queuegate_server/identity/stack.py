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
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.single_flight import FlightCancelled, SingleFlight

_LOG = logging.getLogger("queuegate_server.identity")

_CLOSE_SECONDS: Final = 2.0


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
        self._opening = asyncio.Lock()
        self._users = 0

    @property
    def breaker_state(self) -> BreakerState:
        """Whether look-ups reach the resolver."""
        return self._breaker.state

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

        If it cannot be asked, groups that have expired not too long ago are the answer;
        with `bypass_cache` the answer is then the failure, and what is known stays. Raises
        ValueError if the user name is empty.
        """
        if not user:
            raise ValueError("the user name is empty")
        if not bypass_cache and (answer := self._known(user)) is not None:
            return answer
        try:
            entry = await self._flights.join(user, alone=bypass_cache)
        except FlightCancelled:
            entry = self._cache.unstored(user, CouldNotAsk("the resolver is being closed"))
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

    def _known(self, user: str) -> Answer | None:
        entry = self.cached(user, self._clock())
        if entry is not None:
            return Answer(entry, cached=True, stale=False)
        failure = self._cache.remembered_failure(user)
        if failure is None:
            self._cache.count_miss()
            return None
        groups = self._cache.groups_despite_failure(user)
        if groups is not None:
            return Answer(groups[0], cached=True, stale=groups[1])
        return Answer(failure, cached=True, stale=False)

    def _refresh(self, user: str) -> None:
        if user not in self._flights and not self._closed:
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
