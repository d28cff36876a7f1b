"""What a fleet shares about a partition: answers of resolvers that do not depend on the machine."""

from typing import Any

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition
from queuegate_server.identity.manager import ResolverManager
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.shared import SharedGroups
from queuegate_server.settings.model import Settings
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory

RESOLVERS = {
    "hr": {"type": "test"},
    "slow": {"type": "test", "lookup_timeout": "9s"},
    "host": {"type": "os"},
    "first": {"type": "chain", "resolvers": ["hr", "slow"]},
    "union": {"type": "chain", "resolvers": ["hr", "slow"], "mode": "union"},
    "mixed": {"type": "chain", "resolvers": ["hr", "host"]},
}


class NothingShared:
    resolver_fingerprint = b"a resolver"

    async def get(self, user: str) -> None:
        return None

    def begin(self, user: str) -> None:
        return None


async def shared_settings(clock: ManualClock, resolver: str, *, is_local: bool = False) -> str:
    """Return the settings that a partition's answers are shared under; empty if they are not."""
    settings = Settings.model_validate(
        {"resolvers": RESOLVERS, "partitions": {"p": {"resolver": resolver}}}
    )
    seen = [""]

    def share(partition: str, described: str) -> SharedGroups:
        assert partition == "p"
        seen.append(described)
        return NothingShared()

    manager = ResolverManager(
        settings,
        clock,
        clock,
        share=share,
        around=None if is_local else lambda _name, _resolver: FakeDirectory(sue=("g",)),
    )
    partition = build_partition("p", "ldap", [QueueAcls("root", parse(" g"), parse(""))])
    groups = await manager.for_partitions({"p": partition})
    await groups["p"].resolve("sue")
    await manager.close()
    return seen[-1]


async def test_answers_are_shared_by_the_settings_of_all_resolvers(clock: ManualClock) -> None:
    found = [await shared_settings(clock, name) for name in ("hr", "slow", "first", "union")]
    assert all(found)
    assert len(set(found)) == len(found)
    assert found == [
        await shared_settings(clock, name) for name in ("hr", "slow", "first", "union")
    ]


@pytest.mark.parametrize("resolver", ["host", "mixed"])
async def test_answers_of_the_host_are_not_shared(clock: ManualClock, resolver: str) -> None:
    assert await shared_settings(clock, resolver) == ""


async def test_answers_that_cost_nothing_are_not_shared(clock: ManualClock) -> None:
    assert await shared_settings(clock, "hr", is_local=True) == ""


async def test_the_type_of_a_resolver_counts(clock: ManualClock) -> None:
    """Two types may have the same options."""

    class First:
        Options = ResolverOptions

        def __new__(cls, _options: ResolverOptions) -> Any:
            return FakeDirectory(sue=("g",))

    class Second(First):
        pass

    settings = Settings.model_validate({"partitions": {"p": {}}})
    seen: set[str] = set()

    def share(_partition: str, described: str) -> SharedGroups:
        seen.add(described)
        return NothingShared()

    partition = build_partition("p", "ours", [QueueAcls("root", parse(" g"), parse(""))])
    for each in (First, Second):
        manager = ResolverManager(
            settings,
            clock,
            clock,
            share=share,
            resolver_type=lambda _, found=each: found,  # type: ignore[misc]
        )
        await manager.for_partitions({"p": partition})
        await manager.close()
    assert len(seen) == 2
