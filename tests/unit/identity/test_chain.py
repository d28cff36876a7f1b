"""Chains: several resolvers that a partition names as one."""

import asyncio
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import (
    BREAKER_FAILURES,
    REFRESH_BURST,
    REFRESH_RATE,
    CircuitState,
    GuardedResolver,
)
from queuegate_server.identity.options import CacheOptions, ChainMode, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.identity.resolver_chain import ResolverChain
from queuegate_server.identity.resolvers.local import StaticTableResolver
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import run_ready_callbacks

pytestmark = pytest.mark.usefixtures("no_task_left")

DOWN = "the directory is down"
ABSENT = "not in the directory"
Groups = tuple[str, ...] | None | str
"""The groups of the user in a resolver, None for no such user, or why the lookup fails."""


def guarded(name: str, groups: Groups = None, **bounds: float) -> GuardedResolver:
    directory = FakeDirectory(**({"sue": groups} if isinstance(groups, tuple) else {}))
    directory.broken = isinstance(groups, str)
    failures = int(bounds.pop("breaker_failures", BREAKER_FAILURES))
    options = ResolverOptions.model_validate(bounds)
    built = GuardedResolver(name, directory, options, clock=ManualClock())
    built.breaker.max_failures = failures
    return built


def chain_of(mode: ChainMode, *answers: Groups) -> ResolverChain:
    members = [guarded("abcdef"[position], groups) for position, groups in enumerate(answers)]
    return ResolverChain("all", members, mode)


def failed(name: str) -> LookupFailure:
    return LookupFailure(f"resolver {name!r}: {DOWN}")


@pytest.mark.parametrize(
    ("answers", "first", "union"),
    [
        ((("x", "y"), ("z",)), KnownUser(("x", "y")), KnownUser(("x", "y", "z"))),
        ((("x",), None), KnownUser(("x",)), KnownUser(("x",))),
        ((None, ("z", "x")), KnownUser(("z", "x")), KnownUser(("z", "x"))),
        ((None, None, ("z",)), KnownUser(("z",)), KnownUser(("z",))),
        # The primary group is that of the first who knows the user; nothing is repeated.
        (
            (("x", "y"), ("z", "y", "x", "w")),
            KnownUser(("x", "y")),
            KnownUser(("x", "y", "z", "w")),
        ),
        # A user without groups is known.
        (((), ("z",)), KnownUser(()), KnownUser(("z",))),
        (((), None), KnownUser(()), KnownUser(())),
        ((None, None), NoSuchUser(f"a: {ABSENT}; b: {ABSENT}"),
         NoSuchUser(f"a: {ABSENT}; b: {ABSENT}")),
        # The resolver that cannot be asked may know the user.
        ((DOWN, ("z",)), failed("a"), failed("a")),
        ((None, DOWN, ("z",)), failed("b"), failed("b")),
        ((None, DOWN), failed("b"), failed("b")),
        ((DOWN, DOWN), failed("a"), failed("a")),
        # Who is not asked cannot fail.
        ((("x",), DOWN), KnownUser(("x",)), failed("b")),
        ((("x",), None, DOWN), KnownUser(("x",)), failed("c")),
    ],
)  # fmt: skip
async def test_the_outcome(answers: tuple[Groups, ...], first: Outcome, union: Outcome) -> None:
    assert await chain_of("first", *answers).resolve("sue") == first
    assert await chain_of("union", *answers).resolve("sue") == union


@pytest.mark.parametrize(
    ("before", "first", "union"),
    [
        ((), NoSuchUser("off: disabled"), NoSuchUser("off: disabled")),
        ((None,), NoSuchUser("off: disabled"), NoSuchUser("off: disabled")),
        ((("x",),), KnownUser(("x",)), NoSuchUser("off: disabled")),
        ((DOWN,), failed("a"), failed("a")),
    ],
)
@pytest.mark.parametrize("after", [("z",), None, DOWN])
async def test_a_source_that_refuses_the_user(
    before: tuple[Groups, ...], first: Outcome, union: Outcome, after: Groups
) -> None:
    """Later sources, such as local accounts, do not give the groups back."""
    directory = FakeDirectory()
    directory.answer = NoSuchUser("disabled", is_final=True)
    refusing = GuardedResolver("off", directory, ResolverOptions(), clock=ManualClock())
    members = [guarded("abc"[position], groups) for position, groups in enumerate(before)]
    members += [refusing, guarded("z", after)]
    assert await ResolverChain("all", members, "first").resolve("sue") == first
    assert await ResolverChain("all", members, "union").resolve("sue") == union


_ANSWERS = st.lists(
    st.none() | st.just(DOWN) | st.lists(st.sampled_from("vwxyz"), unique=True).map(tuple),
    min_size=2,
    max_size=6,
)


def naive(mode: ChainMode, answers: list[Groups]) -> Groups:
    """Return what the rules say, read as sentences."""
    knowing = [index for index, groups in enumerate(answers) if isinstance(groups, tuple)]
    asked = answers[: knowing[0] + 1] if knowing and mode == "first" else answers
    if DOWN in asked:
        return DOWN
    named = [name for groups in asked for name in groups or ()]
    return tuple(sorted(set(named), key=named.index)) if knowing else None


@hypothesis.given(_ANSWERS, st.sampled_from(["first", "union"]))
@hypothesis.settings(deadline=None)
def test_the_outcome_is_that_of_a_naive_model(answers: list[Groups], mode: ChainMode) -> None:
    outcome = asyncio.run(chain_of(mode, *answers).resolve("sue"))
    expected = naive(mode, answers)
    match outcome:
        case KnownUser(groups):
            assert groups == expected
        case NoSuchUser():
            assert expected is None
        case LookupFailure():
            assert expected == DOWN


@pytest.mark.parametrize("mode", ["first", "union"])
async def test_each_resolver_keeps_its_own_guards(mode: ChainMode) -> None:
    one = guarded("a")
    two = guarded("b", DOWN, breaker_failures=2)
    chain = ResolverChain("all", [one, two], mode)
    for user in ("u1", "u2"):
        assert await chain.resolve(user) == failed("b")
    assert (one.breaker.state, two.breaker.state) == (CircuitState.CLOSED, CircuitState.OPEN)
    refused = await chain.resolve("u3")
    assert isinstance(refused, LookupFailure)
    assert refused.detail.startswith("resolver 'b': paused after repeated failures")


def chain_with_slow_resolver(slow: FakeDirectory, **options: Any) -> ResolverChain:
    slow.hold.clear()
    given = ResolverOptions(max_concurrent=1, **options)
    members = [guarded("a"), GuardedResolver("b", slow, given, clock=ManualClock())]
    members[1].bulkhead.max_waiting = 0
    return ResolverChain("all", members, "first")


async def test_a_slow_resolver_is_limited_by_its_own_bounds() -> None:
    slow = FakeDirectory(sue=("x",))
    chain = chain_with_slow_resolver(slow)
    look_up = asyncio.create_task(chain.resolve("sue"))
    await run_ready_callbacks()
    refused = await chain.resolve("bob")
    assert refused == LookupFailure("resolver 'b': too many lookups", too_many=True)
    slow.hold.set()
    assert await look_up == KnownUser(("x",))


async def test_a_slow_resolver_is_limited_by_its_own_time() -> None:
    slow = FakeDirectory(sue=("x",))
    chain = chain_with_slow_resolver(slow, lookup_timeout=0.05)
    assert await chain.resolve("sue") == LookupFailure(
        "resolver 'b': no answer within 0.05 s (lookup_timeout)"
    )
    assert slow.cancelled == 1


@pytest.mark.parametrize(("mode", "waiting"), [("first", 0), ("union", 2)])
async def test_queued_lookups_count_where_every_look_up_asks(mode: ChainMode, waiting: int) -> None:
    slow = FakeDirectory()
    slow.hold.clear()
    options = ResolverOptions(max_concurrent=1)
    members = [guarded("a"), GuardedResolver("b", slow, options, clock=ManualClock())]
    chain = ResolverChain("all", members, mode)
    reverse = ResolverChain("reverse", members[::-1], mode)
    lookups = [asyncio.create_task(chain.resolve(user)) for user in ("sue", "bob", "joe")]
    await run_ready_callbacks()
    assert (chain.load.waiting, reverse.load.waiting) == (waiting, 2)
    slow.hold.set()
    await asyncio.gather(*lookups)
    assert (chain.load.waiting, reverse.load.waiting) == (0, 0)


def test_a_chain_is_local_only_if_all_its_resolvers_are() -> None:
    local = GuardedResolver("t", StaticTableResolver(ResolverOptions()), ResolverOptions())
    remote = guarded("a")
    for members, expected in (
        ([local, local], True),
        ([local, remote], False),
        ([remote, local], False),
    ):
        assert ResolverChain("all", members, "first").is_local is expected


async def test_refreshes_stop_while_a_resolver_that_is_always_asked_fails() -> None:
    down = guarded("b", DOWN, breaker_failures=1)
    await down.resolve("bob")
    up = guarded("a", max_concurrent=32)
    assert ResolverChain("all", [up, down], "union").load.capacity == 0
    assert ResolverChain("all", [down, up], "union").load.capacity == 0
    assert ResolverChain("all", [down, up], "first").load.capacity == 0
    assert ResolverChain("all", [up, down], "first").load.capacity == 16


@pytest.mark.parametrize("mode", ["first", "union"])
def test_a_refresh_counts_for_the_resolvers_that_every_look_up_asks(mode: ChainMode) -> None:
    members = [guarded("a"), guarded("b")]
    load = ResolverChain("all", members, mode).load
    assert [load.acquire() for _ in range(REFRESH_BURST + 1)] == [True] * REFRESH_BURST + [False]
    assert load.wait() == pytest.approx(1 / REFRESH_RATE)
    assert [each.load.acquire() for each in members] == [False, mode == "first"]


def test_refreshes_are_limited_where_the_first_resolver_is_local() -> None:
    options = ResolverOptions()
    local = GuardedResolver("t", StaticTableResolver(options), options, clock=ManualClock())
    load = ResolverChain("all", [local, guarded("a")], "first").load
    assert [load.acquire() for _ in range(REFRESH_BURST + 1)] == [True] * REFRESH_BURST + [False]


async def test_a_partition_caches_the_groups_of_a_chain(clock: ManualClock) -> None:
    one, two = FakeDirectory(sue=("x",)), FakeDirectory(sue=("y",))
    members = [
        GuardedResolver(name, directory, ResolverOptions(), clock=clock)
        for name, directory in (("a", one), ("b", two))
    ]
    chain = ResolverChain("all", members, "union")
    groups = GroupResolver(chain, GroupCache(CacheOptions(), clock, clock))
    for _ in range(3):
        answer = await groups.resolve("sue")
        assert answer.entry.outcome == KnownUser(("x", "y"))
    assert (one.asked["sue"], two.asked["sue"]) == (1, 1)
    assert groups.resolver_name == "all"
    # Groups of a part of the resolvers never take the place of those of all.
    two.broken = True
    clock.advance(CacheOptions().positive_ttl)
    stale = await groups.resolve("sue")
    assert (stale.entry.outcome, stale.stale) == (KnownUser(("x", "y")), True)
    await groups.close()
