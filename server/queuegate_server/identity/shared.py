"""Interfaces for servers that share answers of resolvers: the answers, and a lease of the caches.

`fleet/` implements them. Without a fleet nothing is shared, and the lease never ends.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from queuegate_server.identity.resolver import KnownUser, NoSuchUser


class SharedAnswer(NamedTuple):
    """The answer of a resolver, and its lifetime. Failures are not shared."""

    outcome: KnownUser | NoSuchUser
    resolved_at: float
    """When the resolver answered, by the wall clock."""
    expires_at: float
    """When the answer expires, by the wall clock."""


class SharedGroups(Protocol):
    """The answers about users of one partition that other servers have obtained."""

    @property
    def resolver_fingerprint(self) -> bytes:
        """Identifies the settings of the resolver; equal on all servers that share its groups."""

    async def get(self, user: str) -> SharedAnswer | None:
        """Return an answer that is valid now; None if there is none. Never raises, and takes at
        most a few milliseconds.
        """

    def begin(self, user: str) -> Callable[[SharedAnswer], None] | None:
        """Note that the resolver is about to be asked. Return a function that shares its answer,
        unless it is outdated by then, and never waits; None if the answer cannot be shared.
        """


class CacheLease(Protocol):
    """How long all group caches and the response cache may answer."""

    @property
    def ends_at(self) -> float:
        """When the lease ends, by the monotonic clock of the caches."""

    @property
    def max_age(self) -> float:
        """Seconds after the start of a lookup for which its answer may be used: fewer while this
        server would not learn of an invalidation.
        """

    @property
    def generation(self) -> int:
        """How many leases have ended. An answer belongs to the lease in which it was asked for."""

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back whenever a lease ends, before anything is answered."""

    def end_if_expired(self, now: float) -> bool:
        """End the lease if it has expired, and return whether it has: everything that is cached
        must then be asked for again before it is used.
        """


class EndlessLease:
    """The lease of a server that shares nothing."""

    ends_at = max_age = math.inf
    generation = 0

    def on_end(self, callback: Callable[[], None]) -> None:
        """Never call back."""

    def end_if_expired(self, now: float) -> bool:  # noqa: ARG002 - as of every lease
        """Return that it has not expired."""
        return False
