"""Interfaces for sharing resolver results between servers, and for the cache lease.

Implemented in `fleet/`. Without a fleet, nothing is shared and the lease never expires.
"""

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from queuegate_server.identity.resolver import KnownUser, NoSuchUser


class SharedResult(NamedTuple):
    """A lookup outcome and its lifetime. Failures are not shared."""

    outcome: KnownUser | NoSuchUser
    resolved_at: float
    """When the resolver responded (wall clock)."""
    expires_at: float
    """When the result expires (wall clock)."""


class SharedGroups(Protocol):
    """A partition's lookup outcomes, shared between servers."""

    @property
    def resolver_fingerprint(self) -> bytes:
        """A fingerprint of the resolver's settings, equal on all servers that share results."""

    async def get(self, user: str) -> SharedResult | None:
        """Return a user's unexpired shared result, if any. Never raises; takes at most a few ms."""

    def begin(self, user: str) -> Callable[[SharedResult], None] | None:
        """Register the start of a lookup.

        Return a nonblocking function that shares the lookup's result, unless it has become
        outdated. Return None if results cannot be shared.
        """


class FollowerLease(Protocol):
    """The right to follow a source, which one process of a fleet has at a time."""

    async def acquire(self, wait: Callable[[], None]) -> bytes | None:
        """Wait for the lease; return the position up to which all changes are known to all
        processes, or None if it is unknown.

        `wait` is called whenever another process holds the lease. Raises CannotFollow.
        """

    async def keep(self, position: Callable[[], bytes | None]) -> None:
        """Keep the lease until cancelled, and store the position that `position` returns.

        Raises CannotFollow when the lease has been lost.
        """

    async def release(self, position: bytes | None) -> None:
        """Store the position, and give up the lease. Never raises."""


class OwnSource:
    """The lease of a process without a fleet."""

    def __init__(self) -> None:
        self._position: bytes | None = None

    async def acquire(self, wait: Callable[[], None]) -> bytes | None:  # noqa: ARG002 - part of the interface
        """Return the position at which this process stopped, if any."""
        return self._position

    async def keep(self, position: Callable[[], bytes | None]) -> None:  # noqa: ARG002 - part of the interface
        """Do nothing until cancelled."""
        await asyncio.get_running_loop().create_future()

    async def release(self, position: bytes | None) -> None:
        """Keep the position."""
        self._position = position


class CacheLease(Protocol):
    """The right to use the group caches and the response cache, valid for a limited time."""

    @property
    def ends_at(self) -> float:
        """When the lease expires, on the caches' monotonic clock."""

    @property
    def max_age(self) -> float:
        """The maximum age of a cached result in seconds, measured from the start of its lookup.
        It is lower while this server might miss invalidations.
        """

    @property
    def generation(self) -> int:
        """The number of leases that have ended. When it changes, revalidate cached results."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register a callback. It is called when a lease ends, before the caches are used again."""

    def end_if_expired(self, now: float) -> bool:
        """End the lease and return True if it has expired. In that case, the caller must revalidate
        cached results before use.
        """


class EndlessLease:
    """A lease that never expires, for a server without a fleet."""

    ends_at = max_age = math.inf
    generation = 0

    def on_end(self, callback: Callable[[], None]) -> None:
        """Do nothing, because the lease never ends."""

    def end_if_expired(self, now: float) -> bool:  # noqa: ARG002 - part of the interface
        """Return False."""
        return False
