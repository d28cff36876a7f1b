"""A named resolver behind its guards, shared by the partitions that name it."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Final, Protocol

from queuegate_server.identity.guards import (
    Bulkhead,
    CircuitBreaker,
    CircuitState,
    ExceptionContainment,
    Timeout,
)
from queuegate_server.identity.members import CannotListUsers, ListingLimit, MemberListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.refresh import RateLimit
from queuegate_server.identity.resolver import Outcome, Resolver, Source
from queuegate_server.throttling import TokenBucket

_LOG = logging.getLogger(__name__)

OPEN_TIMEOUT: Final = 30.0
CLOSE_TIMEOUT: Final = 2.0
REFRESH_SHARE: Final = 2
"""One in this number of concurrent lookups may be a refresh."""
QUEUE_REFRESH_SHARE: Final = 8
"""The same while lookups are queued: a flood of names must not stop refreshes, because groups that
are not refreshed become too old to be used."""
REFRESH_BURST: Final = 8
"""How many refreshes may start at once after a pause."""
MAX_LISTINGS: Final = 2
"""Lists of members that one resolver makes at once: checks need it more."""
LISTING_SECONDS: Final = 15.0
"""How long one list of members may take, the wait for others included."""
USERS_SECONDS: Final = 300.0
"""The same for a list of users, which only commands make."""


class GroupSource(Source, Protocol):
    """A source of groups that partitions share: a guarded resolver, or a chain of them."""

    @property
    def name(self) -> str:
        """The name, for people."""

    @property
    def is_local(self) -> bool:
        """Whether `resolve` finishes without suspending."""

    @property
    def refresh_bucket(self) -> RateLimit:
        """The rate limit on the refreshes of all partitions."""

    @property
    def refresh_capacity(self) -> int:
        """How many refreshes may run at this moment."""

    @property
    def waiting(self) -> int:
        """How many lookups are queued."""

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups. Never raises."""

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of all users. Raises CannotListUsers."""


class GuardedResolver:
    """A named resolver with the guards around it, shared by the partitions that name it."""

    def __init__(
        self,
        name: str,
        resolver: Resolver,
        options: ResolverOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        observe: Callable[[Outcome, float], None] | None = None,
    ) -> None:
        """Build the guards.

        Args:
            name: The resolver's name, for people.
            resolver: The resolver. A local one (`is_local`) needs no guard but the last.
            options: The bounds.
            clock: A monotonic clock, in seconds.
            observe: Called with the outcome and the seconds of each lookup, refused ones
                included.
        """
        self.name = name
        self.resolver = resolver
        self.is_local: bool = getattr(resolver, "is_local", False)
        self.refresh_bucket = TokenBucket(options.refresh_rate, REFRESH_BURST, clock)
        """The rate limit on the refreshes of all partitions."""
        self._clock = clock
        self._observe = observe
        contained = ExceptionContainment(name, resolver)
        timed = Timeout(name, options.lookup_timeout, contained)
        self.breaker = CircuitBreaker(name, options, timed, clock)
        self.bulkhead = Bulkhead(options, self.breaker, clock)
        self._source: Source = contained if self.is_local else self.bulkhead
        self._max_concurrent = options.max_concurrent
        self._listings = asyncio.Semaphore(MAX_LISTINGS)

    @property
    def refresh_capacity(self) -> int:
        """How many refreshes may run at this moment.

        Most lookups are left to users about whom nothing is known, and while the circuit breaker
        is open nobody is refreshed.
        """
        if self.breaker.refuses:
            return 0
        if self.breaker.state is CircuitState.HALF_OPEN:
            return 1
        share = QUEUE_REFRESH_SHARE if self.bulkhead.waiting else REFRESH_SHARE
        return max(1, self._max_concurrent // share)

    @property
    def waiting(self) -> int:
        """How many lookups are queued."""
        return self.bulkhead.waiting

    async def resolve(self, user: str) -> Outcome:
        """Look up one user. Never raises."""
        start = self._clock()
        outcome = await self._source.resolve(user)
        if self._observe is not None:
            self._observe(outcome, self._clock() - start)
        return outcome

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups, unless the circuit breaker is open. Never raises; the
        groups that could not be listed say why.
        """
        members = getattr(self.resolver, "members", None)
        if members is None:
            listing.give_up(f"the resolver {self.name!r} cannot list the members of groups")
            return
        if self.breaker.refuses:
            listing.give_up(f"the resolver {self.name!r} keeps failing and is paused")
            return
        try:
            async with asyncio.timeout(LISTING_SECONDS), self._listings:
                await members(listing)
        except ListingLimit as limit:
            listing.give_up(str(limit))
        except TimeoutError:
            listing.give_up(f"the members could not be listed within {LISTING_SECONDS:g} s")
        except Exception as error:
            _LOG.error("resolver %r cannot list members", self.name, exc_info=error)
            listing.give_up(f"the resolver failed: {type(error).__name__}")

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of all users.

        Args:
            limit: How many there may be.

        Raises:
            CannotListUsers: Some may be missing.
        """
        users = getattr(self.resolver, "all_users", None)
        if users is None:
            raise CannotListUsers(f"the resolver {self.name!r} cannot list its users")
        try:
            async with asyncio.timeout(USERS_SECONDS), self._listings:
                found: Collection[str] = await users(limit)
        except CannotListUsers as error:
            raise CannotListUsers(f"resolver {self.name!r}: {error}") from None
        except TimeoutError:
            message = f"resolver {self.name!r}: not done within {USERS_SECONDS:g} s"
            raise CannotListUsers(message) from None
        except Exception as error:
            _LOG.error("resolver %r cannot list users", self.name, exc_info=error)
            message = f"the resolver {self.name!r} failed: {type(error).__name__}"
            raise CannotListUsers(message) from error
        return found

    async def open(self) -> None:
        """Open the resolver, within 30 seconds. If it raises or takes longer, close it and raise
        its exception or TimeoutError.
        """
        try:
            async with asyncio.timeout(OPEN_TIMEOUT) as limit:
                await self.resolver.open()
        except BaseException as error:
            await self.close()
            if limit.expired():
                raise TimeoutError(f"not done within {OPEN_TIMEOUT:g} s") from error
            raise

    async def close(self) -> None:
        """Close the resolver, within two seconds."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.resolver.close()
        except Exception as error:
            _LOG.error("cannot close the resolver %r", self.name, exc_info=error)
