"""Interfaces for sharing resolver results between servers, and for the lease of the caches.

Implemented in `fleet/`. Without a fleet, nothing is shared and the lease never expires.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from queuegate_server.identity.resolver import KnownUser, NoSuchUser


class SharedResult(NamedTuple):
    """A resolver's result and its lifetime. Failures are not shared."""

    outcome: KnownUser | NoSuchUser
    resolved_at: float
    """When the resolver responded (wall clock)."""
    expires_at: float
    """When the result expires (wall clock)."""


class SharedGroups(Protocol):
    """The groups of one partition's users, shared between servers."""

    @property
    def resolver_fingerprint(self) -> bytes:
        """Identifies the resolver's settings; equal on all servers that share its groups."""

    async def get(self, user: str) -> SharedResult | None:
        """Return a user's valid result, or None. Never raises; takes at most a few milliseconds."""

    def begin(self, user: str) -> Callable[[SharedResult], None] | None:
        """Register a lookup. Return a nonblocking function that shares its result unless outdated
        by then, or None if the result cannot be shared.
        """


class CacheLease(Protocol):
    """The lease under which the group caches and the response cache may be used."""

    @property
    def ends_at(self) -> float:
        """When the lease expires, on the caches' monotonic clock."""

    @property
    def max_age(self) -> float:
        """The maximum age of a result in seconds, counted from the start of its lookup: shorter
        while this server would miss invalidations.
        """

    @property
    def generation(self) -> int:
        """The number of expired leases. A result belongs to the lease in which it was requested."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register a callback for the end of each lease, invoked before any further cache use."""

    def end_if_expired(self, now: float) -> bool:
        """End the lease if it has expired, and return whether it has. Cached results must then be
        revalidated before use.
        """


class EndlessLease:
    """The lease of a server that shares nothing."""

    ends_at = max_age = math.inf
    generation = 0

    def on_end(self, callback: Callable[[], None]) -> None:
        """Never call back."""

    def end_if_expired(self, now: float) -> bool:  # noqa: ARG002 - part of the interface
        """Return False."""
        return False
