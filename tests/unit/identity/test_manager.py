"""The resolvers in use: opened for the first partition, closed after the last one."""

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.tree import Partition, QueueAcls, build_partition
from queuegate_server.identity.manager import ResolverManager, UnusableResolvers
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
    assert second["b"].cached("sue") is not None
    assert (directory.opened, directory.closed) == (1, 0)
    await manager.close()
    await manager.close()
    assert (directory.opened, directory.closed) == (1, 1)
    assert manager.resolvers() == []


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
    assert (directory.opened, directory.closed) == (3, 1)
