"""The interface of a cache that several servers share, between their own caches and a resolver."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from queuegate_server.identity.resolver import Found, NoSuchUser


class SharedAnswer(NamedTuple):
    """The answer of a resolver, and its lifetime. Failures are not shared."""

    outcome: Found | NoSuchUser
    resolved_at: float
    """When the resolver answered, by the wall clock."""
    expires_at: float
    """When the answer expires, by the wall clock."""


class SharedGroups(Protocol):
    """The answers about users of one partition that other servers have got."""

    @property
    def resolver_fingerprint(self) -> bytes:
        """Identifies the settings of the resolver; equal at all servers that share its groups."""

    async def get(self, user: str) -> SharedAnswer | None:
        """Return an answer that is valid at this moment; None if there is none. Never raises, and
        takes some milliseconds at most.
        """

    def begin(self, user: str) -> Callable[[SharedAnswer], None] | None:
        """Note that the resolver is about to be asked. Return a function that shares its answer,
        unless it is outdated by then, and never waits; None if the answer cannot be shared.
        """
