"""Resolvers that tests open, and ask about users."""

from typing import Protocol, TypeVar

from queuegate_server.identity.resolver import LookupFailure, Resolver, Source

R = TypeVar("R", bound=Resolver)


class Open(Protocol):
    """Opens a resolver, and returns it."""

    async def __call__(self, resolver: R, /) -> R: ...


async def lookup_failure(resolver: Source, user: str, *, source_works: bool | None = None) -> str:
    """Look up a user, and return why that fails. `source_works` is compared unless it is None."""
    outcome = await resolver.resolve(user)
    assert isinstance(outcome, LookupFailure), outcome
    assert source_works in (None, outcome.source_works), outcome
    return outcome.detail
