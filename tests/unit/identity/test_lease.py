"""The lease of a group cache: after its end nothing is used that was asked for before."""

import asyncio

from queuegate_server.identity.resolver import KnownUser
from tests.support.fakes.stack import Stack, describe


async def test_groups_are_asked_for_again_after_the_lease(stack: Stack) -> None:
    await stack.resolve()
    stack.lease.ends_at = stack.clock() + 2
    stack.clock.advance(1.999)
    assert stack.cached() == KnownUser(("g1",))
    stack.clock.advance(0.001)
    assert stack.cached() is None, "no timer is needed"
    assert await stack.resolve() == ("g1", False)
    assert stack.asked() == 2
    assert await stack.resolve() == ("g1", True), "the next lease has begun"


async def test_unknown_users_and_failures_are_asked_for_again(stack: Stack) -> None:
    await stack.resolve("nobody")
    stack.directory.broken = True
    await stack.resolve("bob")
    stack.lease.end()
    stack.directory.broken = False
    assert await stack.resolve("bob") == ("g2", False)
    await stack.resolve("nobody")
    assert stack.asked("nobody") == 2


async def test_stale_groups_only_if_the_directory_cannot_be_asked(stack: Stack) -> None:
    await stack.resolve()
    stack.lease.end()
    stack.directory.broken = True
    assert await stack.resolve() == ("stale g1", True)
    assert stack.asked() == 2, "it was asked first"
    stack.directory.broken = False
    stack.clock.advance(30)
    assert (await stack.resolve())[0] == "g1"


async def test_expired_groups_are_not_used_while_others_are_looked_up(stack: Stack) -> None:
    """Stale groups are used in an outage; these may have been revoked."""
    await stack.resolve()
    stack.clock.advance(301)
    stack.lease.end()
    waiting = await stack.held()
    stack.directory.hold.set()
    assert describe(await waiting) == "g1"


async def test_a_lookup_from_before_the_end_is_not_stored_and_not_joined(stack: Stack) -> None:
    before = await stack.held()
    stack.lease.end()
    after = asyncio.create_task(stack.groups.resolve("sue"))
    stack.directory.hold.set()
    await before
    assert describe(await after) == "g1"
    assert stack.asked() == 2
    assert await stack.resolve() == ("g1", True)


async def test_answers_are_used_for_a_limited_time_after_the_resolver_was_asked(
    stack: Stack,
) -> None:
    """Even if the refresh of many users has to wait: see the rate limit of refreshes."""
    stack.lease.max_age = 5
    lookup = await stack.held()
    stack.clock.advance(2)
    stack.directory.hold.set()
    assert describe(await lookup) == "g1"
    stack.clock.advance(2.999)
    assert stack.cached() == KnownUser(("g1",))
    stack.clock.advance(0.001)
    assert stack.cached() is None
    asked = stack.asked()
    assert await stack.resolve() == ("g1", False)
    assert stack.asked() == asked + 1
    stack.clock.advance(5)
    stack.directory.broken = True
    assert await stack.resolve() == ("stale g1", True), "as in an outage of the directory"


async def test_copies_end_with_the_groups_although_the_resolver_fails(stack: Stack) -> None:
    """Nobody would have other processes forget them."""
    stack.lease.max_age = 5
    await stack.resolve()
    stack.clock.advance(4.9)
    stack.directory.broken = True
    for stranger in ("u1", "u2", "u3"):
        await stack.resolve(stranger)
    known = await stack.groups.resolve("sue")
    assert not known.stale
    assert stack.groups.copy_until(known) == known.entry.expires_at
    stack.clock.advance(1)
    stale = await stack.groups.resolve("sue")
    assert stale.stale
    assert stack.groups.copy_until(stale) == stack.clock() + 5


async def test_copies_of_an_outdated_answer_end_as_soon(stack: Stack) -> None:
    stack.lease.max_age = 5
    slow = await stack.held()
    of_slow, stack.directory.hold = stack.directory.hold, asyncio.Event()
    stack.directory.hold.set()
    await stack.resolve(bypass_cache=True)
    stack.clock.advance(1)
    of_slow.set()
    answer = await slow
    assert stack.groups.copy_until(answer) == stack.clock() + 4


async def test_a_lookup_that_takes_too_long_is_not_joined(stack: Stack) -> None:
    """Its answer may be from before an invalidation for which others have waited."""
    stack.lease.max_age = 5
    before = await stack.held()
    stack.clock.advance(4.9)
    joined = await stack.held()
    assert stack.asked() == 1
    stack.clock.advance(0.1)
    after = await stack.held()
    with_it = await stack.held()
    assert stack.asked() == 2
    stack.directory.hold.set()
    await asyncio.gather(before, joined, after, with_it)
