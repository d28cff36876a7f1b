"""Groups close to their expiry and beyond it: refreshed ahead, or served stale."""

import asyncio

import pytest

from queuegate_server.identity import group_resolver
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import (
    STALE_COPY_SECONDS,
    STALE_WAIT_SECONDS,
    GroupResolver,
)
from queuegate_server.identity.guarded_resolver import REFRESH_BURST, GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import run_ready_callbacks
from tests.support.fakes.stack import Stack, describe

pytestmark = pytest.mark.usefixtures("no_task_left")


async def test_groups_are_refreshed_ahead_of_their_expiry(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(239.9)
    assert stack.cached() == KnownUser(("g1",))
    await run_ready_callbacks()
    assert stack.asked() == 1
    stack.directory.users["sue"] = ("new",)
    stack.clock.advance(0.1)
    for _ in range(3):
        assert stack.cached() == KnownUser(("g1",))
    await run_ready_callbacks()
    assert stack.asked() == 2
    assert stack.cached() == KnownUser(("new",))
    stack.clock.advance(239.9)
    assert stack.cached() == KnownUser(("new",))
    assert stack.groups.stats.refreshes == 1
    assert stack.groups.stats.misses == 1


async def test_a_hanging_refresh_is_not_started_twice(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(250)
    stack.directory.hold.clear()
    for _ in range(5):
        assert await stack.resolve() == ("g1", True)
        await run_ready_callbacks()
    assert stack.asked() == 2
    stack.clock.advance(50)
    late = asyncio.create_task(stack.groups.resolve("sue"))
    await run_ready_callbacks()
    stack.directory.hold.set()
    assert describe(await late) == "g1"
    assert stack.asked() == 2, "who comes after the expiry waits for the refresh"


async def test_a_failed_refresh_leaves_the_groups_until_they_expire(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(250)
    stack.directory.broken = True
    stack.cached()
    await run_ready_callbacks()
    stack.clock.advance(4.9)
    assert stack.cached() == KnownUser(("g1",))
    await run_ready_callbacks()
    assert stack.asked() == 2
    stack.clock.advance(0.1)
    stack.cached()
    await run_ready_callbacks()
    assert stack.asked() == 3, "tried again after the lifetime of a failure"
    stack.clock.advance(45)
    assert await stack.resolve() == ("stale g1", True)


async def test_a_refresh_that_finds_no_user_ends_the_groups(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(250)
    del stack.directory.users["sue"]
    assert stack.cached() == KnownUser(("g1",))
    await run_ready_callbacks()
    assert isinstance(stack.cached(), NoSuchUser)


async def test_stale_groups_are_served_without_asking_at_each_question(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(300)
    stack.directory.broken = True
    assert await stack.resolve() == ("stale g1", True)
    assert stack.asked() == 2
    stack.clock.advance(4.9)
    assert stack.cached() is None, "what is stale is reported as such, by lookup"
    assert await stack.resolve() == ("stale g1", True)
    assert stack.asked() == 2
    stack.clock.advance(0.1)
    assert await stack.resolve() == ("stale g1", True)
    assert stack.asked() == 3
    stack.clock.advance(5)
    stack.directory.broken = False
    assert await stack.resolve() == ("g1", False)
    assert stack.groups.stats.stale_hits == 3


async def test_copies_end_with_the_groups_unless_the_resolver_fails(stack: Stack) -> None:
    async def copy_seconds() -> float:
        return stack.groups.copy_until(await stack.groups.resolve("sue")) - stack.clock()

    assert await copy_seconds() == 300
    stack.clock.advance(290)
    assert await copy_seconds() == 10
    await run_ready_callbacks()
    stack.clock.advance(290)
    stack.directory.broken = True
    assert await copy_seconds() == 10, "no lookup has failed yet"
    await run_ready_callbacks()
    assert await copy_seconds() == STALE_COPY_SECONDS
    stack.clock.advance(10)
    assert await copy_seconds() == STALE_COPY_SECONDS
    stack.clock.advance(3600 - STALE_COPY_SECONDS / 3)
    assert await copy_seconds() == STALE_COPY_SECONDS / 3, "the server uses them no longer itself"
    stack.clock.advance(STALE_COPY_SECONDS / 3)
    assert await copy_seconds() == 5, "the lifetime of a failure"


async def test_while_the_resolver_is_not_asked_copies_outlive_the_groups(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(290)
    stack.directory.broken = True
    for stranger in ("u1", "u2", "u3"):
        await stack.resolve(stranger)
    known = await stack.groups.resolve("sue")
    assert not known.stale
    assert stack.groups.copy_until(known) == stack.clock() + STALE_COPY_SECONDS


async def test_stale_groups_end(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(300 + 3600)
    stack.directory.broken = True
    assert await stack.resolve() == ("the directory is down", False)
    assert await stack.resolve() == ("the directory is down", True)
    assert stack.asked() == 2


async def test_a_failure_remembered_beside_groups_that_end_is_still_remembered(
    stack: Stack,
) -> None:
    await stack.resolve()
    stack.clock.advance(300 + 3600 - 1)
    stack.directory.broken = True
    assert await stack.resolve() == ("stale g1", True)
    stack.clock.advance(2)
    assert await stack.resolve() == ("the directory is down", True)
    assert stack.asked() == 2


async def test_stale_groups_are_not_served_after_a_definite_no(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(400)
    del stack.directory.users["sue"]
    assert await stack.resolve() == ("no such user", False)
    stack.clock.advance(31)
    stack.directory.broken = True
    assert await stack.resolve() == ("the directory is down", False)


async def test_in_an_outage_known_users_cost_no_look_up(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(250)
    stack.directory.broken = True
    for stranger in ("u1", "u2", "u3"):
        await stack.resolve(stranger)
    # The resolver is left alone from here on.
    assert stack.cached() == KnownUser(("g1",))
    stack.clock.advance(9)
    assert await stack.resolve() == ("g1", True)
    assert stack.groups.stats.refreshes == 0
    stack.guarded.breaker._open_until = stack.clock.now + 100
    stack.clock.advance(50)
    for _ in range(3):
        assert await stack.resolve() == ("stale g1", True)
    await run_ready_callbacks()
    assert stack.asked() == 1
    assert stack.groups.stats.misses == 4
    # And the first question after the pause asks again.
    stack.clock.advance(50)
    stack.directory.broken = False
    assert await stack.resolve() == ("g1", False)


async def test_expired_groups_are_the_answer_while_the_source_takes_long(stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(301)
    stack.directory.users["sue"] = ("new",)
    stack.directory.hold.clear()
    for _ in range(2):
        assert await stack.resolve() == ("stale g1", True)
    assert stack.asked() == 2, "the lookup continues"
    stranger = asyncio.create_task(stack.resolve("bob"))
    fresh = asyncio.create_task(stack.resolve(bypass_cache=True))
    await asyncio.sleep(2 * STALE_WAIT_SECONDS)
    assert not stranger.done(), "of whom nothing is known"
    assert not fresh.done()
    stack.directory.hold.set()
    assert await stranger == ("g2", False)
    assert await fresh == ("new", False)
    assert await stack.resolve() == ("new", True)
    assert stack.asked("bob") == 1


async def test_refreshes_leave_room_for_new_users(clock: ManualClock) -> None:
    stack = Stack(clock, max_concurrent=4)
    users = [f"u{number}" for number in range(6)]
    stack.directory.users.update(dict.fromkeys(users, ("g",)))
    for user in users:
        await stack.resolve(user)
    stack.clock.advance(250)
    stack.directory.hold.clear()
    for user in users:
        stack.cached(user)
        await run_ready_callbacks()
    assert stack.guarded.bulkhead.running == 2
    stack.clock.advance(51)
    assert await stack.resolve("u5") == ("stale g", True), "no turn for those who can do without"
    assert stack.guarded.bulkhead.running == 2
    waiting = asyncio.create_task(stack.resolve("sue"))
    await run_ready_callbacks()
    assert stack.guarded.bulkhead.running == 3
    assert stack.guarded.bulkhead.waiting == 0
    stack.directory.hold.set()
    assert await waiting == ("g1", False)
    stack.clock.advance(1)
    for user in users:
        stack.cached(user)
    await run_ready_callbacks()
    await stack.groups.close()


async def test_after_an_outage_known_users_wait_for_no_look_up(clock: ManualClock) -> None:
    stack = Stack(clock)
    users = [f"u{number}" for number in range(100)]
    stack.directory.users.update(dict.fromkeys(users, ("old",)))
    for user in users:
        await stack.resolve(user)
    stack.clock.advance(400)
    stack.directory.users.update(dict.fromkeys(users, ("new",)))
    answers = [await stack.resolve(user) for user in users]
    assert answers == [("new", False)] * REFRESH_BURST + [("stale old", True)] * (
        100 - REFRESH_BURST
    )
    assert await stack.resolve("sue") == ("g1", False), "of whom nothing is known"
    assert stack.groups.stats.misses == 100 + REFRESH_BURST + 1
    async with asyncio.timeout(60):
        while stack.asked("u99") < 2:
            stack.clock.advance(0.01)
            await asyncio.sleep(0.001)
    await run_ready_callbacks()
    assert [await stack.resolve(user) for user in users] == [("new", True)] * 100
    assert stack.directory.asked == dict.fromkeys(users, 2) | {"sue": 1}
    assert stack.groups.stats.refreshes == 100
    await stack.groups.close()


async def test_a_queued_user_who_was_looked_up_otherwise_is_skipped(
    clock: ManualClock,
) -> None:
    stack = Stack(clock)
    users = [f"u{number}" for number in range(REFRESH_BURST + 3)]
    stack.directory.users.update(dict.fromkeys(users, ("g",)))
    for user in users:
        await stack.resolve(user)
    stack.clock.advance(250)
    for user in users:
        stack.cached(user)
    first, second, last = users[-3:]
    await stack.resolve(first, bypass_cache=True)
    stack.groups.invalidate([second])
    async with asyncio.timeout(60):
        while stack.asked(last) < 2:
            stack.clock.advance(0.01)
            await asyncio.sleep(0.001)
    assert stack.asked(first) == 2
    assert stack.asked(second) == 1
    await stack.groups.close()


async def test_how_many_refreshes_may_run(stack: Stack) -> None:
    assert stack.guarded.load.capacity == ResolverOptions().max_concurrent // 2
    stack.directory.hold.clear()
    many = ResolverOptions().max_concurrent + 1
    waiting = [asyncio.create_task(stack.resolve(f"u{number}")) for number in range(many)]
    await run_ready_callbacks()
    assert stack.guarded.bulkhead.waiting == 1
    assert stack.guarded.load.capacity == ResolverOptions().max_concurrent // 8
    stack.directory.hold.set()
    await asyncio.gather(*waiting)
    stack.directory.broken = True
    for user in ("v1", "v2", "v3"):
        await stack.resolve(user)
    assert stack.guarded.load.capacity == 0, "the source is left alone"
    stack.clock.advance(10)
    assert stack.guarded.load.capacity == 1, "one lookup tries whether it is back"


async def test_nobody_waits_for_groups_behind_names_that_are_looked_up(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of names fills the queue: known users have their groups, and are refreshed."""
    directory = FakeDirectory(sue=("g1",))
    options = ResolverOptions(max_concurrent=8)
    shared = GuardedResolver("corp", directory, options, clock=clock)
    monkeypatch.setattr(group_resolver, "STALE_WAIT_SECONDS", 60)
    cache = GroupCache(CacheOptions(), clock, clock)
    groups = GroupResolver(shared, cache)
    await groups.resolve("sue")
    clock.advance(301)
    directory.hold.clear()
    flood = [asyncio.create_task(groups.resolve(f"made-up-{number}")) for number in range(20)]
    await run_ready_callbacks()
    async with asyncio.timeout(30):
        for _ in range(2):
            assert describe(await groups.resolve("sue")) == "stale g1"
    directory.hold.set()
    await asyncio.gather(*flood)
    assert not (await groups.resolve("sue")).stale
    assert directory.asked["sue"] == 2
    await groups.close()
