"""Lookup outcomes, and interfaces for resolvers and their wrappers."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KnownUser:
    """The outcome of a lookup that found the user."""

    groups: tuple[str, ...]
    """All of the user's groups, primary group first, without duplicates."""


@dataclass(frozen=True, slots=True)
class NoSuchUser:
    """The outcome of a lookup for a user who does not exist."""

    detail: str
    """A human-readable reason."""


@dataclass(frozen=True, slots=True)
class LookupFailure:
    """The outcome of a lookup in which the source failed or returned an incomplete response.

    The user may exist, so a failure must never be treated as an empty group list.
    """

    detail: str
    """A human-readable reason, without secrets."""
    too_many: bool = False
    """Whether the lookup was rejected because too many were in progress."""


Outcome = KnownUser | NoSuchUser | LookupFailure
"""The outcome of a lookup. After a failed lookup, the user may still exist."""


class Source(Protocol):
    """A resolver, or a guard around it."""

    async def resolve(self, user: str) -> Outcome:
        """Look up a user. Must not block the event loop, and must stop when cancelled.

        Returns LookupFailure for every fault. An exception is a bug, and is treated as
        LookupFailure. `user` may be any nonempty string.
        """


class Resolver(Source, Protocol):
    """A source of group memberships.

    The constructor does no I/O, so settings can be checked without the source. `open` tolerates
    an unavailable source, so a server can start while the source is down.

    A resolver without an external source sets the class attribute `is_local = True`. Its `resolve`
    must never suspend, and therefore runs without a task, timeout or bulkhead. A resolver whose
    results depend on the host sets `is_of_host = True`; its results are not shared in a fleet.
    """

    async def open(self) -> None:
        """Prepare for lookups. Must finish within 30 s, and not raise if the source is down."""

    async def close(self) -> None:
        """Release all resources. Called once, even if `open` failed; must not hang."""


class Load(Protocol):
    """A source's load, used to limit refreshes."""

    @property
    def capacity(self) -> int:
        """The current limit on concurrent refreshes; 0 while the source must not be queried."""

    @property
    def waiting(self) -> int:
        """The number of queued lookups."""

    def wait(self) -> float:
        """Return the seconds until the next refresh may start; 0 if it may start now."""

    def acquire(self) -> bool:
        """Return whether the rate limit permits another refresh now. If so, count that refresh."""
