"""The group resolver of a partition: when the resolver is asked, and who waits for it."""

import asyncio

import pytest

from queuegate_server.identity.cache import INVALIDATE_STEP, NEVER, GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.identity.resolvers.local import NoResolver
from queuegate_server.runtime import pacing
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.loop import run_ready_callbacks, wait_until
from tests.support.fakes.stack import Stack, describe

pytestmark = pytest.mark.usefixtures("no_task_left")


async def test_the_second_question_is_answered_from_the_cache(stack: Stack) -> None:
    assert stack.cached() is None
    assert await stack.resolve() == ("g1", False)
    assert stack.cached() == KnownUser(("g1",))
    assert await stack.resolve() == ("g1", True)
    assert stack.asked() == 1


async def test_ten_thousand_questions_are_one_lookup(stack: Stack) -> None:
    stack.directory.hold.clear()
    tasks = [asyncio.create_task(stack.groups.resolve("sue")) for _ in range(10_000)]
    await run_ready_callbacks()
    stack.directory.hold.set()
    answers = await asyncio.gather(*tasks)
    assert {describe(answer) for answer in answers} == {"g1"}
    assert stack.asked() == 1
    assert stack.groups.stats.misses == 10_000


async def test_a_cancelled_caller_neither_stops_the_lookup_nor_the_others(stack: Stack) -> None:
    leader = await stack.held()
    follower = await stack.held()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    stack.directory.hold.set()
    assert describe(await follower) == "g1"
    assert stack.asked() == 1


async def test_an_answer_that_nobody_waits_for_is_cached(stack: Stack) -> None:
    only = await stack.held()
    only.cancel()
    stack.directory.hold.set()
    await run_ready_callbacks()
    assert stack.cached() == KnownUser(("g1",))


@pytest.mark.parametrize("outcome", ["no such user", "the directory is down"])
async def test_other_outcomes_are_cached_for_a_while(outcome: str, stack: Stack) -> None:
    lifetime = 30 if outcome == "no such user" else 5
    stack.directory.broken = outcome != "no such user"
    assert await stack.resolve("eve") == (outcome, False)
    stack.directory.broken = False
    stack.directory.users["eve"] = ("g3",)
    stack.clock.advance(lifetime - 0.1)
    assert await stack.resolve("eve") == (outcome, True)
    assert stack.cached("eve") is not None
    stack.clock.advance(0.1)
    assert await stack.resolve("eve") == ("g3", False)


async def test_bypassing_the_cache_asks_and_stores(stack: Stack) -> None:
    await stack.resolve()
    old = stack.groups.known("sue")
    stack.directory.users["sue"] = ("new",)
    assert await stack.resolve() == ("g1", True)
    assert await stack.resolve(bypass_cache=True) == ("new", False)
    assert await stack.resolve() == ("new", True)
    assert old is not None
    assert old.fresh_until == NEVER


async def test_bypassing_the_cache_does_not_join_an_older_lookup(stack: Stack) -> None:
    old = await stack.held()
    stack.directory.users["sue"] = ("new",)
    bypassing = await stack.held(bypass_cache=True)
    stack.directory.hold.set()
    assert (describe(await old), describe(await bypassing)) == ("g1", "new")
    assert stack.cached() == KnownUser(("new",))


async def test_an_older_lookup_that_ends_later_does_not_win(stack: Stack) -> None:
    old = await stack.held()
    blocked, stack.directory.hold = stack.directory.hold, asyncio.Event()
    stack.directory.hold.set()
    stack.directory.users["sue"] = ("new",)
    assert await stack.resolve(bypass_cache=True) == ("new", False)
    blocked.set()
    assert describe(await old) == "g1"
    assert stack.cached() == KnownUser(("new",))
    assert stack.groups.stats.outdated == 1


async def test_bypassing_the_cache_reports_a_failure_and_keeps_the_entry(
    stack: Stack,
) -> None:
    await stack.resolve()
    stack.directory.broken = True
    assert await stack.resolve(bypass_cache=True) == ("the directory is down", False)
    assert await stack.resolve() == ("g1", True)


@pytest.mark.parametrize("users", [[], ["sue"]])
async def test_an_invalidation_during_a_lookup(users: list[str], stack: Stack) -> None:
    before = await stack.held()
    stack.directory.users["sue"] = ("new",)
    assert await stack.invalidate(users) == 0
    after = await stack.held()
    stack.directory.hold.set()
    assert describe(await after) == "new", "who asks after the invalidation does not join"
    assert describe(await before) == "g1"
    assert stack.cached() == KnownUser(("new",))


@pytest.mark.parametrize("users", [[], ["sue"]])
async def test_an_invalidation_during_a_refresh(users: list[str], stack: Stack) -> None:
    await stack.resolve()
    stack.clock.advance(250)
    stack.directory.hold.clear()
    stack.cached()
    await run_ready_callbacks()
    assert await stack.invalidate(users) == 1
    stack.directory.hold.set()
    await run_ready_callbacks()
    assert stack.cached() is None
    assert stack.groups.stats.outdated == 1
    assert await stack.resolve() == ("g1", False)


async def test_an_invalidation_leaves_other_users_alone(stack: Stack) -> None:
    await stack.resolve("bob")
    sue = await stack.held("sue")
    assert stack.groups.invalidate(["eve"]) == 0
    stack.directory.hold.set()
    await sue
    assert stack.cached("sue") == KnownUser(("g1",))
    assert stack.cached("bob") == KnownUser(("g2",))


@pytest.mark.parametrize("bypass_cache", [True, False])
async def test_an_empty_user_never_reaches_a_resolver(bypass_cache: bool, stack: Stack) -> None:
    with pytest.raises(ValueError, match="empty"):
        await stack.groups.resolve("", bypass_cache=bypass_cache)
    assert stack.asked("") == 0


async def test_a_resolver_that_raises_could_not_be_asked(stack: Stack) -> None:
    stack.directory.error = ValueError("secret")
    assert await stack.resolve() == ("the resolver failed: ValueError", False)


async def test_a_local_resolver_is_asked_without_suspending(clock: ManualClock) -> None:
    guarded = GuardedResolver("none", NoResolver(ResolverOptions()), ResolverOptions())
    groups = GroupResolver(guarded, GroupCache(CacheOptions(), clock, clock))
    looking_up = groups.resolve("sue")
    with pytest.raises(StopIteration) as done:
        looking_up.send(None)
    assert describe(done.value.value) == "sue"
    assert groups.known("sue") is done.value.value.entry
    clock.advance(250)
    again = groups.known("sue")
    assert again is not None
    assert again.fresh_until > clock.now, "due, and asked again without a refresh"
    clock.advance(250)
    assert (await groups.resolve("sue")).entry.fresh_until > clock.now
    assert groups.stats.refreshes == 0
    await groups.close()
    assert isinstance((await groups.resolve("bob")).entry.outcome, LookupFailure)


async def test_a_local_resolver_is_asked_where_others_would_need_a_lookup(
    clock: ManualClock,
) -> None:
    guarded = GuardedResolver("none", NoResolver(ResolverOptions()), ResolverOptions())
    groups = GroupResolver(guarded, GroupCache(CacheOptions(), clock, clock))
    entry = groups.known("sue")
    assert entry is not None
    assert entry.outcome == KnownUser(("sue",))
    assert groups.known("sue") is entry
    assert (groups.stats.misses, groups.stats.hits) == (1, 1)
    assert groups.known("") is None
    await groups.close()


async def test_a_local_resolver_that_suspends_is_asked_by_a_lookup(clock: ManualClock) -> None:
    class Suspending(NoResolver):
        async def resolve(self, user: str) -> KnownUser:
            await asyncio.sleep(0)
            return KnownUser((user,))

    guarded = GuardedResolver("slow", Suspending(ResolverOptions()), ResolverOptions())
    groups = GroupResolver(guarded, GroupCache(CacheOptions(), clock, clock))
    assert groups.known("sue") is None
    assert describe(await groups.resolve("sue")) == "sue"
    assert groups.known("sue") is not None
    await groups.close()


@pytest.mark.parametrize("users", [[], ["sue"]])
async def test_an_invalidation_ends_the_answers_that_were_given(
    users: list[str], stack: Stack
) -> None:
    entry = (await stack.groups.resolve("sue")).entry
    assert stack.groups.known("sue") is entry, "the entry itself, not a copy"
    copy = await stack.groups.resolve("sue")
    await stack.invalidate(users)
    assert entry.fresh_until == entry.expires_at == NEVER
    assert stack.groups.copy_until(copy) == NEVER


async def test_an_invalidation_of_all_is_completed_without_its_caller(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 0)
    monkeypatch.setattr(pacing, "STEP_SECONDS", 0)
    users = [f"u{number}" for number in range(3 * INVALIDATE_STEP)]
    entries = [(await stack.groups.resolve(user)).entry for user in users]
    caller = asyncio.create_task(stack.groups.invalidate_all())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    dropped = [entry.fresh_until == NEVER for entry in entries]
    assert any(dropped)
    assert not all(dropped), "other work runs between the steps"
    caller.cancel()
    await wait_until(lambda: all(entry.fresh_until == NEVER for entry in entries))
    assert caller.cancelled()
    await run_ready_callbacks()
