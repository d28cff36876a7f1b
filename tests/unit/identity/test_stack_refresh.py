"""Groups close to their expiry and beyond it: refreshed ahead, or served stale."""

import asyncio

import pytest

from queuegate_server.identity.lookup import Found, NoSuchUser
from queuegate_server.identity.options import CacheOptions
from tests.fakes.clock import ManualClock
from tests.fakes.loop import passing
from tests.fakes.stack import Stack, what

pytestmark = pytest.mark.usefixtures("no_task_left")


async def test_groups_are_refreshed_ahead_of_their_expiry(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(239.9)
    assert stack.cached() == Found(("g1",))
    await passing()
    assert stack.asked() == 1
    stack.directory.users["sue"] = ("new",)
    stack.clock.advance(0.1)
    for _ in range(3):
        assert stack.cached() == Found(("g1",))
    await passing()
    assert stack.asked() == 2
    assert stack.cached() == Found(("new",))
    stack.clock.advance(239.9)
    assert stack.cached() == Found(("new",))
    assert stack.groups.statistics().refreshes == 1
    assert stack.groups.statistics().misses == 1


async def test_a_hanging_refresh_is_not_started_twice(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(250)
    stack.directory.hold.clear()
    for _ in range(5):
        assert await stack.lookup() == ("g1", True)
        await passing()
    assert stack.asked() == 2
    stack.clock.advance(50)
    late = asyncio.create_task(stack.groups.lookup("sue"))
    await passing()
    stack.directory.hold.set()
    assert what(await late) == "g1"
    assert stack.asked() == 2, "who comes after the expiry waits for the refresh"


async def test_a_failed_refresh_leaves_the_groups_until_they_expire(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(250)
    stack.directory.broken = True
    stack.cached()
    await passing()
    stack.clock.advance(4.9)
    assert stack.cached() == Found(("g1",))
    await passing()
    assert stack.asked() == 2
    stack.clock.advance(0.1)
    stack.cached()
    await passing()
    assert stack.asked() == 3, "tried again after the lifetime of a failure"
    stack.clock.advance(45)
    assert await stack.lookup() == ("stale g1", True)


async def test_a_refresh_that_finds_no_user_ends_the_groups(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(250)
    del stack.directory.users["sue"]
    assert stack.cached() == Found(("g1",))
    await passing()
    assert isinstance(stack.cached(), NoSuchUser)


async def test_stale_groups_are_served_without_asking_at_each_question(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(300)
    stack.directory.broken = True
    assert await stack.lookup() == ("stale g1", True)
    assert stack.asked() == 2
    stack.clock.advance(4.9)
    assert stack.cached() is None, "what is stale is reported as such, by lookup"
    assert await stack.lookup() == ("stale g1", True)
    assert stack.asked() == 2
    stack.clock.advance(0.1)
    assert await stack.lookup() == ("stale g1", True)
    assert stack.asked() == 3
    stack.clock.advance(5)
    stack.directory.broken = False
    assert await stack.lookup() == ("g1", False)
    assert stack.groups.statistics().stale_hits == 3


async def test_stale_groups_end(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(300 + 3600)
    stack.directory.broken = True
    assert await stack.lookup() == ("the directory is down", False)
    assert await stack.lookup() == ("the directory is down", True)
    assert stack.asked() == 2


async def test_a_failure_remembered_beside_groups_that_end_is_still_remembered(
    stack: Stack,
) -> None:
    await stack.lookup()
    stack.clock.advance(300 + 3600 - 1)
    stack.directory.broken = True
    assert await stack.lookup() == ("stale g1", True)
    stack.clock.advance(2)
    assert await stack.lookup() == ("the directory is down", True)
    assert stack.asked() == 2


async def test_stale_groups_are_not_served_after_a_definite_no(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(400)
    del stack.directory.users["sue"]
    assert await stack.lookup() == ("no such user", False)
    stack.clock.advance(31)
    stack.directory.broken = True
    assert await stack.lookup() == ("the directory is down", False)


async def test_in_an_outage_known_users_cost_no_look_up(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(250)
    stack.directory.broken = True
    for stranger in ("u1", "u2", "u3"):
        await stack.lookup(stranger)
    # The resolver is left alone from here on.
    assert stack.cached() == Found(("g1",))
    stack.clock.advance(9)
    assert await stack.lookup() == ("g1", True)
    assert stack.groups.statistics().refreshes == 0
    stack.shared._breaker._open_until = stack.clock.now + 100
    stack.clock.advance(50)
    for _ in range(3):
        assert await stack.lookup() == ("stale g1", True)
    await passing()
    assert stack.asked() == 1
    assert stack.groups.statistics().misses == 4
    # And the first question after the pause asks again.
    stack.clock.advance(50)
    stack.directory.broken = False
    assert await stack.lookup() == ("g1", False)


async def test_expired_groups_are_the_answer_while_the_source_takes_long(stack: Stack) -> None:
    await stack.lookup()
    stack.clock.advance(301)
    stack.directory.users["sue"] = ("new",)
    stack.directory.hold.clear()
    for _ in range(2):
        assert await stack.lookup() == ("stale g1", True)
    assert stack.asked() == 2, "the look-up goes on"
    stranger = asyncio.create_task(stack.lookup("bob"))
    fresh = asyncio.create_task(stack.lookup(bypass_cache=True))
    await asyncio.sleep(2 * CacheOptions().stale_wait)
    assert not stranger.done(), "of whom nothing is known"
    assert not fresh.done()
    stack.directory.hold.set()
    assert await stranger == ("g2", False)
    assert await fresh == ("new", False)
    assert await stack.lookup() == ("new", True)
    assert stack.asked("bob") == 1


async def test_refreshes_leave_most_turns_to_those_who_wait(clock: ManualClock) -> None:
    stack = Stack(clock, max_concurrent=16)
    users = [f"u{number}" for number in range(6)]
    stack.directory.users.update(dict.fromkeys(users, ("g",)))
    await stack.groups.open()
    for user in users:
        await stack.lookup(user)
    stack.clock.advance(250)
    stack.directory.hold.clear()
    for user in users:
        stack.cached(user)
        await passing()
    assert stack.shared.running == 2
    stack.clock.advance(51)
    assert await stack.lookup("u5") == ("stale g", True), "no turn for those who can do without"
    assert stack.shared.running == 2
    waiting = asyncio.create_task(stack.lookup("sue"))
    await passing()
    assert stack.shared.running == 3
    assert stack.shared.waiting == 0
    stack.directory.hold.set()
    assert await waiting == ("g1", False)
    stack.clock.advance(1)
    for user in users:
        stack.cached(user)
    await passing()
    await stack.groups.close()
