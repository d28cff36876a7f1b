"""What a look-up of a user can come to, and what a resolver must offer."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


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
class CouldNotAsk:
    """Nothing is known: the source did not answer, or not completely.

    Never to be read as an empty group list.
    """

    detail: str
    """Why, for people; holds no secret."""
    too_many: bool = False
    """Whether it was not even tried, because of the others that are asked for."""


Outcome = Found | NoSuchUser | CouldNotAsk
"""Three outcomes, never two: "could not ask" is neither found nor absent."""


class Source(Protocol):
    """Whatever answers for one user: a resolver, or a wrapper around one.

    Used from one event loop.
    """

    async def resolve(self, user: str) -> Outcome:
        """Look up one user. Never blocks the event loop, and ends when cancelled.

        Answers CouldNotAsk for every fault; an exception is a bug and is treated
        as CouldNotAsk. `user` is never empty; it may hold any other text.
        """


class Resolver(Source, Protocol):
    """A source of group membership. Used from one event loop.

    Building a resolver does no I/O; `open` does, so that a configuration can be
    checked without the source and a server can start while the source is down.
    """

    async def open(self) -> None:
        """Get ready to answer. Must not raise because the source is down."""

    async def close(self) -> None:
        """Release everything. Called once; never hangs."""


@runtime_checkable
class Immediate(Protocol):
    """A resolver that asks nobody, so that its answers need no task, limit or time."""

    def resolve_now(self, user: str) -> Outcome:
        """Look up one user; never raises, never blocks."""
