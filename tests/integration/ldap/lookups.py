"""Waiting for lookups, and timing them."""

import asyncio
import time

from queuegate_server.identity.resolver import KnownUser, Outcome
from queuegate_server.identity.resolvers.ldap.ldap_resolver import LdapResolver

BOB = KnownUser(("analytics",))
"""Bob's groups in the standard directory."""


async def timed(resolver: LdapResolver, user: str = "bob") -> tuple[Outcome, float]:
    start = time.monotonic()
    outcome = await resolver.resolve(user)
    return outcome, time.monotonic() - start


async def until_found(resolver: LdapResolver, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while (outcome := await resolver.resolve("bob")) != BOB:
        assert time.monotonic() < end, outcome
        await asyncio.sleep(0.02)


async def until_asked(resolver: LdapResolver, url: str, seconds: float = 60) -> None:
    """Wait until lookups go to this server."""
    end = time.monotonic() + seconds

    def asked() -> int:
        count = resolver.statistics.steps.get((url, "user search"))
        return count.succeeded if count else 0

    before = asked()
    while asked() == before:
        assert await resolver.resolve("bob") == BOB
        assert time.monotonic() < end
        await asyncio.sleep(0.02)
