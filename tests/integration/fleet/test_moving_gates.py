"""A gate that moves from one replica to another keeps the groups that are still valid."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

import queuegate
from tests.support.fakes.loop import wait_until
from tests.support.fakes.tcp_proxy import Proxy, proxy_to
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

USERS = [f"user{number}" for number in range(50)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), "a", "b") as running:
        running.until_barriers_are_quick()
        yield running


@pytest.fixture
def fleet(shared: Fleet) -> Fleet:
    shared.directory.reset({user: dict(STAFF) for user in USERS})
    shared.clients["a"].invalidate(wait=True)
    return shared


class MovingGate:
    """A gate that reaches one replica at a time."""

    def __init__(self, fleet: Fleet, proxy: Proxy, gate: queuegate.aio.Gate) -> None:
        self._fleet = fleet
        self._proxy = proxy
        self.gate = gate

    async def leave(self) -> None:
        """Have the gate reach no replica."""
        await self._proxy.refuse()

    async def move(self, replica: str) -> None:
        """Have the gate reach another replica, and wait until it decides on its own again."""
        resets = self.gate.resets
        self._proxy.target = _port(self._fleet, replica)
        await self._proxy.refuse()
        await self._proxy.start()

        def is_live() -> bool:
            return self.gate.resets > resets and self.gate.state is queuegate.GateState.LIVE

        await wait_until(is_live)

    async def decides(self, user: str, *, allowed: bool) -> bool:
        """Return whether the gate decides about a user without asking the server."""
        before = self.gate.decided
        assert (await self.gate.check(user, "root.work")).allowed is allowed
        return self.gate.decided > before

    async def learn(self) -> None:
        """Ask about all users until the gate holds their groups."""
        async with asyncio.timeout(60):
            while not all([await self.decides(user, allowed=True) for user in USERS]):
                pass  # for those that it does not decide, it asks


def _port(fleet: Fleet, replica: str) -> int:
    return int(fleet.servers[replica].address.rpartition(":")[2])


@asynccontextmanager
async def moving_gate(fleet: Fleet) -> AsyncIterator[MovingGate]:
    """Open a gate at the first replica that holds the groups of all users."""
    async with (
        proxy_to(_port(fleet, "a")) as proxy,
        queuegate.aio.Gate(f"127.0.0.1:{proxy.port}", timeout=60) as gate,
    ):
        moving = MovingGate(fleet, proxy, gate)
        await moving.learn()
        yield moving


async def test_a_gate_keeps_its_groups(fleet: Fleet) -> None:
    async with moving_gate(fleet) as moving:
        for replica in ("b", "a", "b"):
            await moving.move(replica)
            assert [await moving.decides(user, allowed=True) for user in USERS] == [True] * 50


async def test_a_gate_drops_groups_that_were_invalidated_on_its_way(fleet: Fleet) -> None:
    async with moving_gate(fleet) as moving:
        await moving.leave()
        fleet.directory.answer({user: dict(OTHERS) for user in USERS[:5]})
        fleet.clients["b"].invalidate(USERS[:2])
        await asyncio.to_thread(fleet.clients["a"].invalidate, USERS[2:5], wait=True)
        await moving.move("b")
        for user in USERS[:5]:
            assert not await moving.decides(user, allowed=False)
        assert [await moving.decides(user, allowed=True) for user in USERS[5:]] == [True] * 45


async def test_a_replica_that_has_just_joined_knows_what_was_invalidated(fleet: Fleet) -> None:
    async with moving_gate(fleet) as moving:
        await moving.leave()
        fleet.clients["a"].invalidate(USERS[:1])
        await asyncio.to_thread(fleet.start, "c")
        await moving.move("c")
        assert not await moving.decides(USERS[0], allowed=True)
        assert [await moving.decides(user, allowed=True) for user in USERS[1:]] == [True] * 49


async def test_barriers_hold_while_a_gate_moves(fleet: Fleet) -> None:
    """Once an invalidation has returned, no answer comes from the groups before it."""
    async with moving_gate(fleet) as moving:
        replicas = itertools.cycle("ba")
        for number in range(4):
            after = OTHERS if number % 2 == 0 else STAFF
            fleet.directory.answer({USERS[0]: dict(after)})
            change = asyncio.to_thread(fleet.clients["a"].invalidate, [USERS[0]], wait=True)
            move = asyncio.create_task(moving.move(next(replicas)))
            await change
            allowed = (await moving.gate.check(USERS[0], "root.work")).allowed
            assert allowed is (after is STAFF)
            await move
            assert (await moving.gate.check(USERS[0], "root.work")).allowed is allowed
            assert await moving.decides(USERS[1], allowed=True)
