"""Partitions that name the same resolver: the state they share, and its end."""

import asyncio

import pytest

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import CircuitState, GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, Outcome
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import run_ready_callbacks

pytestmark = pytest.mark.usefixtures("no_task_left")

CLOSING = LookupFailure(
    "the lookup was abandoned: the server is stopping, or the partition has a new resolver"
)


def partition(shared: GuardedResolver, clock: ManualClock) -> GroupResolver:
    return GroupResolver(shared, GroupCache(CacheOptions(), clock, clock))


async def test_each_partition_has_a_cache_of_its_own(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g1",))
    shared = GuardedResolver("corp", directory, ResolverOptions(), clock=clock)
    one, two = partition(shared, clock), partition(shared, clock)
    assert one.resolver_name == two.resolver_name == "corp"
    await one.resolve("sue")
    assert two.known("sue") is None
    await two.resolve("sue")
    assert directory.asked["sue"] == 2
    assert await one.invalidate_all() == 1
    assert two.known("sue") is not None
    await one.close()
    await two.close()


async def test_the_breaker_is_shared(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g1",))
    shared = GuardedResolver("corp", directory, ResolverOptions(), clock=clock)
    shared.breaker.max_failures, shared.breaker.pause = 2, 10
    one, two = partition(shared, clock), partition(shared, clock)
    directory.broken = True
    states = []
    for user in "ab":
        states.append(shared.breaker.state)
        await one.resolve(user)
    states.append(shared.breaker.state)
    assert states == [CircuitState.CLOSED, CircuitState.CLOSED, CircuitState.OPEN]
    answer = await two.resolve("sue")
    assert answer.entry.outcome == LookupFailure("paused after repeated failures, for another 10 s")
    assert directory.asked["sue"] == 0
    await one.close()


async def test_the_bound_on_lookups_is_shared(clock: ManualClock) -> None:
    directory = FakeDirectory(**{user: (user,) for user in "abcd"})
    directory.hold.clear()
    shared = GuardedResolver("corp", directory, ResolverOptions(max_concurrent=2), clock=clock)
    shared.bulkhead.max_waiting = 1
    one, two = partition(shared, clock), partition(shared, clock)
    tasks = [
        asyncio.create_task(groups.resolve(user))
        for groups, user in ((one, "a"), (two, "b"), (one, "c"))
    ]
    await run_ready_callbacks()
    assert (shared.bulkhead.running, shared.bulkhead.waiting) == (2, 1)
    refused = await two.resolve("d")
    assert refused.entry.outcome == LookupFailure("too many lookups", too_many=True)
    directory.hold.set()
    await asyncio.gather(*tasks)
    assert directory.most_running == 2
    assert shared.breaker.state is CircuitState.CLOSED, "being busy is not a failure"
    await one.close()


async def test_a_burst_of_new_users_is_served_and_not_refused(clock: ManualClock) -> None:
    directory = FakeDirectory(**{f"user{number}": ("g",) for number in range(2000)})
    shared = GuardedResolver("corp", directory, ResolverOptions(), clock=clock)
    groups = partition(shared, clock)
    answers = await asyncio.gather(*(groups.resolve(user) for user in directory.users))
    assert {answer.entry.outcome for answer in answers} == {KnownUser(("g",))}
    assert directory.most_running <= 64
    await groups.close()


async def test_close_ends_lookups_and_refreshes(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g1",), bob=("g2",))
    shared = GuardedResolver("corp", directory, ResolverOptions(), clock=clock)
    groups = partition(shared, clock)
    await groups.resolve("sue")
    clock.advance(265)
    directory.hold.clear()
    known = groups.known("sue")
    waiting = asyncio.create_task(groups.resolve("bob"))
    await run_ready_callbacks()
    assert directory.running == 2
    await groups.close()
    assert (await waiting).entry.outcome == CLOSING
    assert (directory.running, directory.cancelled) == (0, 2)
    assert groups._flights._flights == {}
    assert groups.known("sue") is known
    assert (await groups.resolve("bob")).entry.outcome == CLOSING
    await run_ready_callbacks()
    assert directory.running == 0, "no refresh starts any more"


async def test_a_resolver_that_fails_to_close_is_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Unclosable(FakeDirectory):
        async def close(self) -> None:
            raise OSError("stuck")

    await GuardedResolver("corp", Unclosable(), ResolverOptions(), clock=clock).close()
    assert [record.getMessage() for record in caplog.records] == [
        "cannot close the resolver 'corp'"
    ]


async def test_lookups_can_be_observed(clock: ManualClock) -> None:
    observed: list[tuple[Outcome, float]] = []

    class Slow(FakeDirectory):
        async def resolve(self, user: str) -> Outcome:
            clock.advance(0.25)
            return await super().resolve(user)

    shared = GuardedResolver(
        "corp",
        Slow(sue=("g1",)),
        ResolverOptions(),
        clock=clock,
        observe=lambda outcome, seconds: observed.append((outcome, seconds)),
    )
    assert await shared.resolve("sue") == KnownUser(("g1",))
    assert observed == [(KnownUser(("g1",)), 0.25)]
