"""Named resolvers with guards, shared by partitions.

Each guard wraps the next: bulkhead, circuit breaker, timeout, exception containment, and finally
the resolver.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import TYPE_CHECKING, Final

from queuegate_server.identity.members import Listings, MemberListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import (
    KnownUser,
    LookupFailure,
    NoSuchUser,
    Outcome,
    Resolver,
    Source,
)
from queuegate_server.runtime.single_flight import is_being_cancelled
from queuegate_server.throttling.token_bucket import TokenBucket

if TYPE_CHECKING:
    from queuegate_server.identity.following import ChangeFollower

_LOG = logging.getLogger(__name__)

BURST_SHARE: Final = 1 / 8
"""A resolver is overloaded if its queue has been nonempty for longer than this fraction of
`lookup_timeout`. A lookup is then rejected if its wait would exceed both this time and the duration
of `MIN_LOOKUPS` lookups."""
MIN_LOOKUPS: Final = 3
EWMA_ALPHA: Final = 1 / 64
"""The weight of the latest lookup in the moving average of durations."""
OPEN_TIMEOUT: Final = 30.0
CLOSE_TIMEOUT: Final = 2.0
REFRESH_SHARE: Final = 2
"""One in this many concurrent lookups may be a refresh."""
QUEUE_REFRESH_SHARE: Final = 8
"""Replaces `REFRESH_SHARE` while lookups are queued. A flood of new names must not stop refreshes,
or cached groups would become too stale to use."""
BREAKER_FAILURES: Final = 5
"""The number of different users in a row whose lookups must fail before the source is paused. With
a lower number, a few broken entries could pause the source; with a higher one, more users would
wait for `lookup_timeout` in vain."""
BREAKER_PAUSE_SECONDS: Final = 1.0
"""How long a failing source is paused before a trial lookup. One lookup a second is a negligible
load even for a recovering source, and a longer pause would refuse new users after the source has
recovered.
"""
MAX_WAITING: Final = 10_000
"""The maximum number of queued lookups: all users of a large cluster after a restart. The queue is
shorter under sustained overload, which is what keeps callers from waiting in vain."""
REFRESH_RATE: Final = 500.0
"""The maximum number per second of cached users that are looked up again. Meanwhile, their cached
groups are used. With the default `positive_ttl`, it is enough for 150,000 users."""
REFRESH_BURST: Final = 8
"""The maximum burst of refreshes after a pause."""


class ExceptionContainment:
    """Converts a source's exceptions into LookupFailures that reveal only the exception type."""

    def __init__(self, name: str, source: Source) -> None:
        self._name = name
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        try:
            outcome: object = await self._source.resolve(user)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            # The source cancelled one of its own tasks; this lookup was not cancelled.
            return self._fault(user, error)
        except Exception as error:
            return self._fault(user, error)
        if isinstance(outcome, LookupFailure):
            _LOG.warning("resolver %r cannot look up %r: %s", self._name, user, outcome.detail)
        elif not isinstance(outcome, KnownUser | NoSuchUser):
            _LOG.error("resolver %r returned %s for %r", self._name, type(outcome).__name__, user)
            return LookupFailure("the resolver returned a value of the wrong type")
        return outcome

    def _fault(self, user: str, error: BaseException) -> LookupFailure:
        _LOG.error("resolver %r failed for %r", self._name, user, exc_info=error)
        return LookupFailure(f"the resolver failed: {type(error).__name__}")


class Timeout:
    """Cancels lookups that exceed a time limit, measured by the event loop's clock."""

    def __init__(self, name: str, seconds: float, source: Source) -> None:
        self._name = name
        self._seconds = seconds
        self._source = source

    async def resolve(self, user: str) -> Outcome:
        """Look up a user. The source must support cancellation."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._source.resolve(user)
        except TimeoutError:
            detail = f"no answer within {self._seconds:g} s (lookup_timeout)"
            _LOG.warning("resolver %r cannot look up %r: %s", self._name, user, detail)
            return LookupFailure(detail)


class CircuitState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    """Lookups reach the resolver."""
    OPEN = "open"
    """Lookups are rejected."""
    HALF_OPEN = "half-open"
    """One trial lookup at a time reaches the resolver."""


@dataclass(eq=False)
class CircuitBreaker:
    """Stops queries to a failing source.

    The breaker opens for `BREAKER_PAUSE_SECONDS` after lookups have failed for `BREAKER_FAILURES`
    different users in a row. Repeated failures for one user count once, because only that user's
    entry may be broken. A failure counts as a success if the source works, and a lookup does not
    count at all if the source was not queried or is too busy: a busy source itself says how long to
    wait.
    """

    name: str
    source: Source
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self.max_failures = BREAKER_FAILURES
        self.pause = BREAKER_PAUSE_SECONDS
        self._failed: set[str] = set()
        self._open_until: float | None = None
        self._probing = False
        self._changes = 0
        self.last_failure: tuple[float, str] | None = None
        """The time and reason of the last failed lookup."""

    @property
    def state(self) -> CircuitState:
        """The current state."""
        if self._open_until is None:
            return CircuitState.CLOSED
        if self.clock() < self._open_until:
            return CircuitState.OPEN
        return CircuitState.HALF_OPEN

    @property
    def refuses(self) -> bool:
        """Whether a lookup would be rejected now."""
        state = self.state
        return state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self._probing)

    async def resolve(self, user: str) -> Outcome:
        """Look up a user, or return LookupFailure immediately if the breaker is open."""
        if self.refuses:
            remaining = max(1, ceil((self._open_until or 0.0) - self.clock()))
            return LookupFailure(f"paused after repeated failures, for another {remaining} s")
        self._probing = self.state is CircuitState.HALF_OPEN
        changes = self._changes
        try:
            outcome = await self.source.resolve(user)
        except BaseException:
            if changes == self._changes:
                self._probing = False
            raise
        if isinstance(outcome, LookupFailure):
            self.last_failure = self.clock(), outcome.detail
        # Ignore the outcome if the breaker has changed state since the lookup started.
        if changes == self._changes:
            self._record(user, outcome)
        return outcome

    def _record(self, user: str, outcome: Outcome) -> None:
        match outcome:
            case LookupFailure(too_many=True) | NoSuchUser(source_asked=False):
                self._probing = False
            case LookupFailure(source_works=False):
                self._record_failure(user, outcome.detail)
            case _:
                self._failed.clear()
                if self._open_until is not None:
                    self._change(None)
                    _LOG.warning("resolver %r answers again", self.name)

    def _record_failure(self, user: str, detail: str) -> None:
        self._failed.add(user)
        if self._open_until is not None or len(self._failed) >= self.max_failures:
            self._change(self.clock() + self.pause)
            _LOG.warning(
                "resolver %r keeps failing and is paused for %.1f s: %s",
                self.name,
                self.pause,
                detail,
            )

    def _change(self, open_until: float | None) -> None:
        self._open_until = open_until
        self._probing = False
        self._failed.clear()
        self._changes += 1


@dataclass(eq=False)
class Bulkhead:
    """Limits the number of concurrent lookups (`max_concurrent`) and queued lookups
    (`MAX_WAITING`). A queued lookup waits for up to `lookup_timeout`.

    The queue absorbs bursts of new users, for example after startup. It is bounded so that
    callers fail fast if the source is slow, and kept short while the source is overloaded.
    """

    options: ResolverOptions
    source: Source
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._semaphore = asyncio.Semaphore(self.options.max_concurrent)
        self.max_waiting = MAX_WAITING
        self.waiting = 0
        """The number of queued lookups."""
        self.running = 0
        """The number of lookups in progress."""
        self._queued_since = 0.0
        """When the queue last became nonempty (monotonic clock)."""
        self._duration = 0.0
        """The moving average of lookup durations, in seconds."""

    async def resolve(self, user: str) -> Outcome:
        """Look up a user; return LookupFailure if the lookup cannot start in time."""
        if self._semaphore.locked():
            if self.waiting >= self.max_waiting or self._is_overloaded():
                return LookupFailure("too many lookups", too_many=True)
            if not await self._acquire_in_time():
                detail = (
                    f"too many lookups: none could start within {self.options.lookup_timeout:g} s"
                )
                return LookupFailure(detail, too_many=True)
        else:
            await self._semaphore.acquire()
        self.running += 1
        start = self.clock()
        try:
            return await self.source.resolve(user)
        finally:
            self.running -= 1
            seconds = self.clock() - start
            alpha = EWMA_ALPHA if self._duration else 1
            self._duration += (seconds - self._duration) * alpha
            self._semaphore.release()

    def _is_overloaded(self) -> bool:
        """Return whether the queue persists and the estimated wait for a lookup is too long."""
        burst = self.options.lookup_timeout * BURST_SHARE
        if not self.waiting or self.clock() - self._queued_since < burst:
            return False
        wait = self.waiting / self.options.max_concurrent * self._duration
        return wait > max(burst, MIN_LOOKUPS * self._duration)

    async def _acquire_in_time(self) -> bool:
        """Take a place among the running lookups; return False if none becomes free in time."""
        if not self.waiting:
            self._queued_since = self.clock()
        self.waiting += 1
        try:
            async with asyncio.timeout(self.options.lookup_timeout):
                await self._semaphore.acquire()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self.waiting -= 1


@dataclass(eq=False)
class ResolverLoad:
    """A resolver's load, used to limit refreshes."""

    breaker: CircuitBreaker
    bulkhead: Bulkhead

    def __post_init__(self) -> None:
        self.options = self.bulkhead.options
        bucket = TokenBucket(REFRESH_RATE, REFRESH_BURST, self.bulkhead.clock)
        # Limits the rate of refreshes across all partitions.
        self.wait, self.acquire, self.charge = bucket.wait, bucket.acquire, bucket.charge

    @property
    def capacity(self) -> int:
        """The current limit on concurrent refreshes (0 while the circuit breaker is open).

        The remaining lookup slots are reserved for users without a cache entry.
        """
        if self.breaker.refuses:
            return 0
        if self.breaker.state is CircuitState.HALF_OPEN:
            return 1
        share = QUEUE_REFRESH_SHARE if self.bulkhead.waiting else REFRESH_SHARE
        return max(1, self.options.max_concurrent // share)

    @property
    def waiting(self) -> int:
        """The number of queued lookups."""
        return self.bulkhead.waiting


class GuardedResolver:
    """A named resolver with its guards, shared by partitions.

    Args:
        name: The resolver's display name.
        resolver: The resolver. If it is local (`is_local`), only ExceptionContainment is used.
        options: The guards' limits.
        clock: A monotonic clock, in seconds.
        observe: Called with each lookup's outcome and duration in seconds, even if the guards
            rejected the lookup.
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
        self.resolver = resolver
        self.is_local: bool = getattr(resolver, "is_local", False)
        self.follower: ChangeFollower | None = None
        """Follows the resolver's changes; None if they are not followed."""
        self._clock = clock
        self._observe = observe
        contained = ExceptionContainment(name, resolver)
        timed = Timeout(name, options.lookup_timeout, contained)
        self.breaker = CircuitBreaker(name, timed, clock)
        self.bulkhead = Bulkhead(options, self.breaker, clock)
        self._source: Source = contained if self.is_local else self.bulkhead
        self.load: Final = ResolverLoad(self.breaker, self.bulkhead)
        self._listings = Listings(name, resolver)
        self.all_users = self._listings.all_users

    async def resolve(self, user: str) -> Outcome:
        """Look up a user."""
        start = self._clock()
        outcome = await self._source.resolve(user)
        if self._observe is not None:
            self._observe(outcome, self._clock() - start)
        return outcome

    async def members(self, listing: MemberListing) -> None:
        """List group members. Never raises; faults are recorded in the listing."""
        if self._listings.can_list_members and self.breaker.refuses:
            listing.give_up(f"the resolver {self.name!r} keeps failing and is paused")
        else:
            await self._listings.members(listing)

    async def open(self) -> None:
        """Open the resolver, with a timeout of 30 s. If this fails, close it and reraise."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT) as limit:
                await self.resolver.open()
        except BaseException as error:
            await self.close()
            if limit.expired():
                raise TimeoutError(f"timed out after {OPEN_TIMEOUT:g} s") from error
            raise

    async def close(self) -> None:
        """Close the resolver, with a timeout of 2 s. Exceptions are logged."""
        try:
            if self.follower is not None:
                await self.follower.close()
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.resolver.close()
        except Exception as error:
            _LOG.error("cannot close the resolver %r", self.name, exc_info=error)
