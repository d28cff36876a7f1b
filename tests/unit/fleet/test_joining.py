"""A replica that begins to follow a history reads its policy again if it may have to."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queuegate_server.engine import NotReady
from queuegate_server.fleet.barrier import Peers
from queuegate_server.fleet.events import Change, Event
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.follower import Follower
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.lease import ReplicaLease
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.fleet.status_reporter import StatusReporter

EPOCH = b"e" * 16
FORGET = Change.forget("default", ("sam",), is_awaited=False)
RELOAD = Change("reload")


def at(sequence: int) -> LogPosition:
    return LogPosition(EPOCH, sequence, b"%d" % sequence if sequence else b"")


def events(*changes: Change) -> list[Event]:
    return [Event(at(n), at(n - 1).nonce, change) for n, change in enumerate(changes, 1)]


class Parts:
    """The parts around a follower, which note in `done` what it has them do."""

    streams = 0
    shipped = ("default",)
    log = SimpleNamespace(head=0)

    def __init__(self) -> None:
        self.done: list[str] = []
        self.forgotten: list[str] = []
        self.is_confirmed = asyncio.Event()
        self.state = ReplicaLog()
        self.lease = ReplicaLease()
        this = cast("Any", self)
        self.reporter = StatusReporter(
            Peers("id", "a"), "a", self.state, version="1", engine=this, hub=this, clock=lambda: 0.0
        )
        self.follower = Follower(
            *(this, self.state, OrderFence(self.state, lambda: False), self.reporter),
            lease=self.lease,
            engine=this,
            reloader=this,
            hub=this,
            clock=lambda: 0.0,
            wake=self._wake,
        )

    @property
    def snapshot(self) -> Any:
        raise NotReady

    async def reload(self) -> Any:
        self.done.append("reloaded")
        return SimpleNamespace(succeeded=True)

    def forget(self, partition: str) -> None:
        self.forgotten.append(partition)

    async def policy_shipped(self) -> int:
        self.done.append("shipped")
        return 0

    async def barrier(self, sequence: int) -> list[str]:
        self.done.append("gates have it")
        return []

    async def join(self, history: Sequence[Event]) -> list[str]:
        """Follow a history; return what has been done until this is reported."""
        self.done.clear()
        self.is_confirmed.clear()
        head = history[-1].position if history else at(0)
        await self.follower.join([*history], head, 0.0)
        async with asyncio.timeout(60):
            await self.is_confirmed.wait()
        for _ in range(3):
            await asyncio.sleep(0)  # the task that has confirmed ends
        return self.done

    def _wake(self) -> None:
        through = self.reporter.status.confirmed_through
        assert through is not None
        self.done.append(f"confirmed through {through[0]}")
        self.is_confirmed.set()


@pytest.mark.parametrize("history", [(), (FORGET,), (RELOAD,)])
async def test_at_its_first_joining_it_does(history: Sequence[Change]) -> None:
    """A reload may have been asked for after its first load of the policy."""
    head = f"confirmed through {len(history)}"
    assert await Parts().join(events(*history)) == ["reloaded", "shipped", "gates have it", head]


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


async def test_gates_forget_the_groups_of_partitions_that_are_about_to_go() -> None:
    """While another policy is shipped, gates still decide by the one before."""
    parts = Parts()
    await parts.join(events(FORGET))
    parts.forgotten.clear()
    parts.lease.end()
    assert parts.forgotten == ["default"]


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
