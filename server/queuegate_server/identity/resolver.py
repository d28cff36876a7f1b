"""The outcomes of a lookup, and the interface of a resolver."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Found:
    """The user exists."""

    groups: tuple[str, ...]
    """All groups of the user, primary group first, without duplicates."""


@dataclass(frozen=True, slots=True)
class NoSuchUser:
    """It is certain that the user does not exist."""

    detail: str
    """Why, for people."""


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """Nothing is known: the source did not answer, or not completely.

    Never to be read as an empty group list.
    """

    detail: str
    """Why, for people; holds no secret."""
    too_many: bool = False
    """Whether the source was not even asked, because too many lookups are under way."""


Outcome = Found | NoSuchUser | LookupFailed
"""Three outcomes, never two: "could not ask" is neither found nor absent."""


class Source(Protocol):
    """An object that looks up users: a resolver, or a guard around one."""

    async def resolve(self, user: str) -> Outcome:
        """Look up one user. Never blocks the event loop, and ends when cancelled.

        Returns LookupFailed for every fault; an exception is a bug and is treated as
        LookupFailed. `user` is never empty; it may hold any other text.
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
        """Release everything. Called once, also after `open` has failed; never hangs."""
