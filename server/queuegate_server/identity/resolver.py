"""The outcomes of a lookup, and the interfaces of resolvers and of the objects around them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from queuegate_server.identity.members import MemberListing


@dataclass(frozen=True, slots=True)
class KnownUser:
    """The user exists."""

    groups: tuple[str, ...]
    """All groups of the user, primary group first, without duplicates."""


@dataclass(frozen=True, slots=True)
class NoSuchUser:
    """It is certain that the user does not exist."""

    detail: str
    """Why, for people."""


@dataclass(frozen=True, slots=True)
class LookupFailure:
    """Nothing is known: the source did not answer, or not completely.

    Must never be read as an empty group list.
    """

    detail: str
    """Why, for people; contains no secret."""
    too_many: bool = False
    """Whether the source was not even asked, because too many lookups are under way."""


Outcome = KnownUser | NoSuchUser | LookupFailure
"""Three outcomes, never two: "could not ask" is neither found nor absent."""


class Source(Protocol):
    """An object that looks up users: a resolver, or a guard around one."""

    async def resolve(self, user: str) -> Outcome:
        """Look up one user. Never blocks the event loop, and ends when cancelled.

        Returns LookupFailure for every fault; an exception is a bug and is treated as
        LookupFailure. `user` is never empty; it may be any other text.
        """


class Resolver(Source, Protocol):
    """A source of group membership.

    Building a resolver does no I/O; `open` does, so that a configuration can be
    checked without the source and a server can start while the source is down.

    A resolver that asks nobody has the class attribute `is_local = True`. Its `resolve`
    finishes without suspending, so that it needs no task, timeout or bulkhead. One whose answers
    depend on the machine has `is_of_host = True`, and a fleet does not share them.
    """

    async def open(self) -> None:
        """Get ready to answer, within 30 s. Must not raise because the source is down."""

    async def close(self) -> None:
        """Release everything. Called once, even if `open` has failed; never hangs."""


class Load(Protocol):
    """How busy a source is, which limits its refreshes."""

    @property
    def capacity(self) -> int:
        """How many refreshes may run now; 0 while the source must not be asked."""

    @property
    def waiting(self) -> int:
        """How many lookups are queued."""

    def wait(self) -> float:
        """Return the seconds until the next refresh may start; 0 if it may start now."""

    def acquire(self) -> bool:
        """Count a refresh if it may start now, and return whether it may."""


class GroupSource(Source, Protocol):
    """A source of groups that partitions share: a guarded resolver, or a chain of them."""

    @property
    def name(self) -> str:
        """The name, for people."""

    @property
    def is_local(self) -> bool:
        """Whether `resolve` finishes without suspending."""

    @property
    def load(self) -> Load:
        """The load of the source."""

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups. Never raises."""

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of all users. Raises CannotListUsers."""
