"""Lookup outcomes, and interfaces for resolvers and their wrappers."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KnownUser:
    """The outcome of a lookup that found the user."""

    groups: tuple[str, ...]
    """All of the user's groups, primary group first, without duplicates."""


@dataclass(frozen=True, slots=True)
class NoSuchUser:
    """The outcome of a lookup for a user who does not exist, or is treated as nonexistent."""

    detail: str
    """A human-readable reason."""
    source_asked: bool = field(default=True, compare=False)
    """Whether the source itself gave this answer. False if the name alone shows that no user can
    have it.
    """
    is_final: bool = field(default=False, compare=False)
    """Whether the source refuses the user, for example because the account is disabled. A chain
    then queries no other source, even though another source may know the user.
    """


@dataclass(frozen=True, slots=True)
class LookupFailure:
    """The outcome of a lookup in which the source failed or returned an incomplete response.

    The user may exist, so a failure must never be treated as an empty group list.
    """

    detail: str
    """A human-readable reason, without secrets."""
    too_many: bool = False
    """Whether the lookup was rejected because too many were in progress."""
    source_works: bool = False
    """Whether the source answered, but has data about this user that must not be used, such as
    several groups with the same name. Anyone who can cause this must not be able to stop other
    users' lookups."""


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

    A resolver that can follow its source has a `changes` method, described by `Following`. The
    attribute is missing or None if the resolver cannot follow its source, or if its settings do not
    enable this.
    """

    async def open(self) -> None:
        """Prepare for lookups. Must finish within 30 s, and not raise if the source is down."""

    async def close(self) -> None:
        """Release all resources. Called once, even if `open` failed; must not hang."""


class ChangeSink(Protocol):
    """Receives changes from a resolver that follows its source. The methods do not block."""

    @property
    def position(self) -> bytes | None:
        """The newest position passed to `reached`, perhaps by another process. None if it is
        unknown; all users are then invalidated at the first call of `reached`.
        """

    def invalidate(self, users: Collection[str]) -> None:
        """Report that the groups of these users may have changed. Names are those in requests."""

    def invalidate_all(self) -> None:
        """Report that the groups of any user may have changed."""

    def reached(self, position: bytes | None = None) -> None:
        """Report that the source is being followed and all changes until now have been reported.

        Called when following begins, and then regularly, even without changes.

        Args:
            position: Where a later call of `changes` can continue; at most 16 KiB. None if it is
                unchanged, or the source has no positions.
        """


class CannotFollow(Exception):
    """A source cannot be followed. The message is human-readable, without secrets."""


class Following(Protocol):
    """The optional method `changes` of a resolver."""

    async def __call__(self, sink: ChangeSink) -> None:
        """Follow the source until cancelled, and report its changes.

        Continues at `sink.position`; if the source no longer knows it, calls `invalidate_all`.
        Called between `open` and `close`, and again some time after it has raised. Must not block
        the event loop. Raises CannotFollow for every fault; another exception is a bug.
        """


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
