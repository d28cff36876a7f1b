"""A replica that begins to follow a history reads its policy again if it may have to."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queuegate_server.fleet.events import Change, Event
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import Join, NewestEvents
from queuegate_server.reloads import ReloadCause
from queuegate_server.sync.barrier import Unconfirmed
from queuegate_server.sync.changes import LocalChanges

EPOCH = b"e" * 16
FORGET = Change.invalidate("default", ("sam",), is_awaited=False)
RELOAD = Change("reload")


def at(sequence: int) -> LogPosition:
    return LogPosition(EPOCH, sequence, b"%d" % sequence if sequence else b"")


def events(*changes: Change) -> list[Event]:
    return [Event(at(n), at(n - 1).nonce, change) for n, change in enumerate(changes, 1)]


class Parts:
    """A replica, which notes in `done` what its follower does."""

    partitions: Sequence[str] = ()

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gates_dropped = 0
        self.is_confirmed = asyncio.Event()
        self.session = FleetSession("id", "a", 0.0)
        self.state, self.lease = self.session.log, self.session.lease
        this = cast("Any", self)
        self.follower = Follower(self.session, this, this, lambda: 0.0, self._wake)

    def invalidate_gates(self) -> None:
        self.gates_dropped += 1

    async def invalidate_cache(self, _partition: str, _users: object) -> int:
        return 0

    async def read_policy(self, _cause: ReloadCause) -> Any:
        self.done.append("reloaded")
        return SimpleNamespace(succeeded=True)

    async def gates_follow(self) -> Unconfirmed:
        self.done.append("gates have it")
        return Unconfirmed()

    async def join(self, history: Sequence[Event]) -> list[str]:
        """Follow a history; return what has been done until this is reported."""
        self.done.clear()
        self.is_confirmed.clear()
        head = history[-1].position if history else at(0)
        join = self.session.read(NewestEvents(head, 0.0), [*history])
        assert isinstance(join, Join)
        await self.follower.join(join)
        async with asyncio.timeout(60):
            await self.is_confirmed.wait()
        for _ in range(3):
            await asyncio.sleep(0)  # the task that has confirmed ends
        return self.done

    def _wake(self) -> None:
        through = self.session.confirmations.through
        if through is None:
            return  # it has stopped
        self.done.append(f"confirmed through {through[0]}")
        self.is_confirmed.set()


@pytest.mark.parametrize("history", [(), (FORGET,), (RELOAD,)])
async def test_at_its_first_joining_it_does(history: Sequence[Change]) -> None:
    """A reload may have been asked for after its first load of the policy."""
    head = f"confirmed through {len(history)}"
    assert await Parts().join(events(*history)) == ["reloaded", "gates have it", head]


async def test_at_another_one_it_does_after_a_reload_that_it_missed() -> None:
    parts = Parts()
    await parts.join(events(FORGET))
    parts.lease.end()
    assert await parts.join(events(FORGET, FORGET)) == ["gates have it", "confirmed through 2"]
    parts.lease.end()
    assert "reloaded" in await parts.join(events(FORGET, FORGET, RELOAD, FORGET))


async def test_at_another_one_it_does_if_it_does_not_know_what_it_missed() -> None:
    parts = Parts()
    await parts.join(events(FORGET))
    parts.lease.end()
    assert "reloaded" in await parts.join(events(FORGET, FORGET, FORGET)[2:])


async def test_gates_drop_all_groups_when_the_lease_ends() -> None:
    parts = Parts()
    await parts.join(events(FORGET))
    before = parts.gates_dropped
    parts.lease.end()
    assert parts.gates_dropped == before + 1


class Process:
    """An engine without a policy, a reloader, and gates that still have one."""

    latest = None
    shipped = ("default",)

    def __init__(self) -> None:
        self.done: list[str] = []

    async def reload(self, _cause: ReloadCause) -> None:
        self.done.append("reloaded")

    async def policy_shipped(self) -> None:
        self.done.append("shipped")

    def invalidate(self, partition: str) -> None:
        self.done.append(partition)


async def test_gates_drop_the_groups_of_partitions_that_are_about_to_go() -> None:
    """While another policy is being shipped, gates still decide from the previous one."""
    process = Process()
    local = LocalChanges(*[cast("Any", process)] * 3)
    local.invalidate_gates()
    assert process.done == ["default"]


async def test_a_policy_is_read_before_it_is_shipped() -> None:
    process = Process()
    await LocalChanges(*[cast("Any", process)] * 3).read_policy(ReloadCause.FLEET)
    assert process.done == ["reloaded", "shipped"]


async def test_at_another_one_it_does_while_a_reload_is_not_finished() -> None:
    """Otherwise the replica would confirm a reload before it has read its file."""
    parts = Parts()
    await parts.join(events(FORGET))
    may_read = asyncio.Event()
    parts.follower._start_reload(cast("Any", may_read.wait()))
    parts.lease.end()
    assert "reloaded" in await parts.join(events(FORGET))
    may_read.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    parts.lease.end()
    assert "reloaded" not in await parts.join(events(FORGET))
