"""Resolvers that tests open, and ask about users."""

from typing import Protocol, TypeVar

from queuegate_server.identity.resolver import LookupFailure, Resolver, Source

R = TypeVar("R", bound=Resolver)


class Open(Protocol):
    """Opens a resolver, and returns it."""

    async def __call__(self, resolver: R, /) -> R: ...


async def lookup_failure(resolver: Source, user: str) -> str:
    """Look up a user, and return why that fails."""
    outcome = await resolver.resolve(user)
    assert isinstance(outcome, LookupFailure), outcome
    return outcome.detail
