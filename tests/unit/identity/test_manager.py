"""The resolvers in use: opened for the first partition, closed after the last one."""

import asyncio

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate_server.identity import guarded_resolver
from queuegate_server.identity.manager import ResolverManager, UnusableResolvers
from queuegate_server.identity.resolver import KnownUser
from queuegate_server.settings.model import Settings
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory


def partitions(*names: str) -> dict[str, Partition]:
    return {
        name: build_partition(name, "test", [QueueAcls("root", parse(" g"), parse(""))])
        for name in names
    }


def manager_of(directory: FakeDirectory, clock: ManualClock) -> ResolverManager:
    return ResolverManager(Settings(), clock, clock, around=lambda _name, _resolver: directory)


async def test_partitions_share_a_resolver_and_keep_their_caches(clock: ManualClock) -> None:
    directory = FakeDirectory(sue=("g1",))
    manager = manager_of(directory, clock)
    first = await manager.for_partitions(partitions("a", "b"))
    assert (directory.opened, directory.closed) == (1, 0)
    assert [(where, each.name) for where, each in manager.resolvers()] == [("policy", "test")]
    await first["b"].resolve("sue")
    second = await manager.for_partitions(partitions("b", "c"))
    await manager.close_unused(second.values())
    assert second["b"] is first["b"]
    assert second["b"].known("sue") is not None
    assert (directory.opened, directory.closed) == (1, 0)
    await manager.close()
    await manager.close()
    assert (directory.opened, directory.closed) == (1, 1)
    assert manager.resolvers() == []


async def test_resolvers_are_closed_once_by_a_reload_and_the_end_together(
    clock: ManualClock,
) -> None:
    class Slow(FakeDirectory):
        async def close(self) -> None:
            await super().close()
            await asyncio.sleep(0)

    directories = {"one": Slow(), "two": Slow()}
    settings = Settings.model_validate(
        {
            "resolvers": {name: {"type": "test"} for name in directories},
            "partitions": {name: {"resolver": name} for name in directories},
        }
    )
    manager = ResolverManager(settings, clock, clock, around=lambda name, _: directories[name])
    await manager.for_partitions(partitions("one", "two"))
    await asyncio.gather(manager.close_unused(()), manager.close())
    assert [each.closed for each in directories.values()] == [1, 1]


async def test_a_resolver_that_cannot_be_set_up_can_be_opened_again(clock: ManualClock) -> None:
    class Unopenable(FakeDirectory):
        async def open(self) -> None:
            await super().open()
            if self.opened <= 2:
                raise ImportError("no driver")

    directory = Unopenable()
    manager = manager_of(directory, clock)
    with pytest.raises(UnusableResolvers, match="no driver") as caught:
        await manager.for_partitions(partitions("a", "b"))
    assert [each.partition.name for each in caught.value.unusable] == ["a", "b"]
    assert {each.remedy for each in caught.value.unusable} == {
        "set `partitions.a.resolver` to use another one",
        "set `partitions.b.resolver` to use another one",
    }
    await manager.for_partitions(partitions("a", "b"))
    await manager.close()
    # Whatever it had acquired before it failed is released.
    assert (directory.opened, directory.closed) == (3, 3)


async def test_a_resolver_that_hangs_while_it_is_opened(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(FakeDirectory):
        async def open(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(guarded_resolver, "OPEN_TIMEOUT", 0.01)
    directory = Hanging()
    manager = manager_of(directory, clock)
    with pytest.raises(UnusableResolvers, match=r"TimeoutError: timed out after 0\.01 s"):
        await manager.for_partitions(partitions("a"))
    assert directory.closed == 1
    assert manager.resolvers() == []


async def test_a_chain_shares_resolvers_with_partitions_that_name_them(clock: ManualClock) -> None:
    settings = Settings.model_validate(
        {
            "resolvers": {
                "one": {"type": "test"},
                "two": {"type": "test"},
                "all": {"type": "chain", "resolvers": ["one", "two"], "mode": "union"},
            },
            "partitions": {"a": {"resolver": "one"}, "b": {"resolver": "all"}},
        }
    )
    directories = {"one": FakeDirectory(sue=("g1",)), "two": FakeDirectory(sue=("g2",))}
    manager = ResolverManager(settings, clock, clock, around=lambda name, _: directories[name])
    groups = await manager.for_partitions(partitions("a", "b"))
    assert {each.name for _, each in manager.resolvers()} == {"one", "two"}
    answer = await groups["b"].resolve("sue")
    assert answer.entry.outcome == KnownUser(("g1", "g2"))
    assert groups["b"].resolver_name == "all"

    def opened_and_closed() -> list[tuple[int, int]]:
        return [(each.opened, each.closed) for each in directories.values()]

    assert opened_and_closed() == [(1, 0), (1, 0)]
    # The chain's own partition goes, and with it the resolver that no other partition names.
    await manager.close_unused([groups["a"]])
    assert opened_and_closed() == [(1, 0), (1, 1)]
    await manager.close()
    assert opened_and_closed() == [(1, 1), (1, 1)]


async def test_a_resolver_of_a_chain_that_cannot_be_opened(clock: ManualClock) -> None:
    class Unopenable(FakeDirectory):
        async def open(self) -> None:
            raise ImportError("no driver")

    settings = Settings.model_validate(
        {
            "resolvers": {
                "one": {"type": "test"},
                "two": {"type": "test"},
                "all": {"type": "chain", "resolvers": ["one", "two"]},
            },
            "partitions": {"a": {"resolver": "all"}},
        }
    )
    directories = {"one": FakeDirectory(), "two": Unopenable()}
    manager = ResolverManager(settings, clock, clock, around=lambda name, _: directories[name])
    with pytest.raises(UnusableResolvers, match="uses the resolver 'two'") as caught:
        await manager.for_partitions(partitions("a"))
    assert [each.remedy for each in caught.value.unusable] == [
        "correct `resolvers.two`, or set `partitions.a.resolver` to use another one"
    ]
    await manager.close()
    assert directories["one"].closed == 1
