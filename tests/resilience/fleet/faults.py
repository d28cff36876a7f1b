"""A fleet whose Redis or replicas fail: after a barrier, no answer may come from the groups before.

Three replicas are asked all the time, and a gate that moves from one to the next. In each round
something happens to Redis or to a replica, a user is moved to another group, and the user is
invalidated until that succeeds. A call about a known user that a running replica does not answer is
a violation as well. A replica that was waited out because it cannot reach Redis is excused until it
follows the fleet again.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import queuegate
from queuegate import aio
from tests.resilience.fleet.failover import FAILOVERS, Failover
from tests.support.fakes.scripted_directory import ScriptedDirectory
from tests.support.fakes.tcp_proxy import Proxy
from tests.support.faults import Barriers, Tally
from tests.support.servers.fleet import OTHERS, STAFF, Fleet
from tests.support.servers.processes import freeze
from tests.support.servers.redis_server import running_redis
from tests.support.servers.sentinels import ReplicatedRedis, replicated_redis

NAMES: Final = ("a", "b", "c")
GATE: Final = "the gate"
OLD, NEW = 0, 1
"""The versions of a user's groups."""
BYSTANDER: Final = "bystander"
"""A user whose groups are never invalidated."""
LONGER_THAN_A_LEASE: Final = 3.0
LONG_FREEZE: Final = 10.0
PATIENCE: Final = 120.0
"""Seconds in which an invalidation must succeed after a fault."""
STAY: Final = (0.2, 2.0)
"""For how many seconds the gate stays at a replica, at least and at most."""


class Rounds:
    """A fleet that is asked all the time."""

    def __init__(
        self,
        fleet: Fleet,
        proxy: Proxy,
        chance: random.Random,
        *,
        frozen: float,
        wait: bool,
        replicated: ReplicatedRedis | None,
    ) -> None:
        self.chance = chance
        self.wait = wait
        self.fleet = fleet
        self.replicated = replicated
        """What the fleet uses instead of one Redis."""
        self.proxy = proxy
        """Between the replica c and Redis."""
        self.frozen = frozen
        self.tally = Tally()
        self.barriers = Barriers(self.tally)
        self._user = "nobody"
        self._clients: dict[str, aio.Client] = {}
        self._gate: aio.Gate | None = None
        self._gate_proxy = Proxy(0)
        self._down: set[str] = set()
        self._numbers = itertools.count()

    async def start(self, name: str) -> None:
        redis = f"redis://127.0.0.1:{self.proxy.port}" if name == "c" else self.fleet.redis.url
        if self.replicated is not None:
            redis = self.replicated.url
        server = await asyncio.to_thread(self.fleet.start, name, url=redis)
        retry = queuegate.Retry(attempts=1)
        self._clients[name] = aio.Client(server.address, timeout=PATIENCE, retry=retry)
        self._down.discard(name)

    async def start_gate(self) -> None:
        """Open the gate, when all replicas have been started."""
        await self._gate_proxy.start()
        self._move_gate("a")
        address = f"127.0.0.1:{self._gate_proxy.port}"
        self.fleet.directory.answer({BYSTANDER: dict(STAFF)})
        self._gate = aio.Gate(address, timeout=PATIENCE)

    async def close_gate(self) -> None:
        if self._gate is not None:
            self.tally.decided = self._gate.decided
            await self._gate.close()
        await self._gate_proxy.close()

    def _move_gate(self, name: str) -> None:
        self._gate_proxy.target = int(self.fleet.servers[name].address.rpartition(":")[2])
        self._gate_proxy.drop()

    async def _keep_moving(self) -> None:
        for name in itertools.cycle(NAMES):
            await asyncio.sleep(self.chance.uniform(*STAY))
            if name not in self._down:
                self._move_gate(name)

    async def stop(self, name: str) -> None:
        """End a replica for good, with kill -9."""
        self._down.add(name)
        os.kill(self.fleet.servers[name].pid, signal.SIGKILL)
        await self._clients.pop(name).close()

    async def read(self) -> None:
        """Ask all replicas and the gate all the time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_moving())
            group.create_task(self._read_gate())
            for name in NAMES:
                group.create_task(self._read(name))

    async def round(self, fault: "Fault") -> None:
        """Move a user while something happens, and wait until all replicas agree."""
        user = f"u{next(self._numbers)}"
        self.fleet.directory.answer({user: dict(STAFF)})
        self._user = user
        for name in NAMES:
            assert (await self._clients[name].check(user, "root.work")).allowed
        async with fault(self):
            self.fleet.directory.answer({user: dict(OTHERS)})
            await self._invalidate(user, "a")
            await asyncio.sleep(0.2)
        await self._until_all_follow()
        for name in NAMES:
            await self._check(name, user, time.monotonic())

    async def _read(self, name: str) -> None:
        while True:
            await asyncio.sleep(0.005)
            if name not in self._down:
                await self._check(name, self._user, time.monotonic())

    async def _read_gate(self) -> None:
        """Ask the gate. A question that it passes on may be lost when it moves."""
        gate, resets = self._gate, 0
        assert gate is not None
        while True:
            await asyncio.sleep(0.005)
            user, started = self._user, time.monotonic()
            with contextlib.suppress(queuegate.QueuegateError):
                if user != "nobody":
                    self._judge(GATE, user, started, await gate.check(user, "root.work"))
                has_moved = gate.resets > resets and gate.state is queuegate.GateState.LIVE
                decided = gate.decided
                await gate.check(BYSTANDER, "root.work")
                if has_moved:
                    resets = gate.resets
                    self.tally.kept += gate.decided > decided

    async def _check(self, name: str, user: str, started: float) -> None:
        if user == "nobody":
            return
        try:
            decision = await self._clients[name].check(user, "root.work")
        except (queuegate.QueuegateError, KeyError) as error:
            if name not in self._down:
                self.tally.violations.append(f"{name} does not answer about {user}: {error}")
            return
        self._judge(name, user, started, decision)

    def _judge(self, name: str, user: str, started: float, made: queuegate.Decision) -> None:
        self.tally.answers += 1
        self.barriers.judge(name, user, OLD if made.allowed else NEW, started)

    async def _invalidate(self, user: str, name: str) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                await self._clients[name].invalidate([user], wait=self.wait)
            except queuegate.ServerUnavailable as error:
                self.tally.failed[str(error).split(":")[0]] += 1
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.05)
            else:
                break
        self.barriers.returned(user, NEW)

    async def _until_all_follow(self) -> None:
        """Wait until an invalidation is confirmed by all replicas."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(queuegate.ServerUnavailable):
                result = await self._clients["b"].invalidate(["nobody"], wait=True)
                if not any(each in result.waited_out for each in map("replica {}".format, "ac")):
                    return
        raise AssertionError("the fleet does not agree any more")


Fault = Callable[[Rounds], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def redis_killed(rounds: Rounds) -> AsyncIterator[None]:
    """It is away for a moment, and comes back empty."""
    redis = rounds.fleet.redis
    redis.kill()
    back = asyncio.create_task(_later(0.5, lambda: asyncio.to_thread(redis.start)))
    yield
    await back


@contextlib.asynccontextmanager
async def redis_restarted(rounds: Rounds) -> AsyncIterator[None]:
    """It comes back empty at once."""
    rounds.fleet.redis.stop()
    rounds.fleet.redis.start()
    yield


@contextlib.asynccontextmanager
async def redis_stopped(rounds: Rounds) -> AsyncIterator[None]:
    """It hangs, and resumes as if nothing had happened."""
    redis = rounds.fleet.redis
    redis.freeze()

    async def thaw() -> None:
        redis.thaw()

    back = asyncio.create_task(_later(rounds.frozen, thaw))
    yield
    await back


@contextlib.asynccontextmanager
async def redis_paused(rounds: Rounds) -> AsyncIterator[None]:
    """CLIENT PAUSE."""
    rounds.fleet.redis.pause(int(rounds.frozen * 1_000))
    yield


@contextlib.asynccontextmanager
async def redis_emptied(rounds: Rounds) -> AsyncIterator[None]:
    """FLUSHALL."""
    rounds.fleet.redis.command("FLUSHALL")
    yield


@contextlib.asynccontextmanager
async def redis_restored(rounds: Rounds) -> AsyncIterator[None]:
    """FLUSHALL, and when the barrier has returned, a restart with the content of before."""
    redis = rounds.fleet.redis
    assert redis.command("SAVE") == b"+OK\r\n"
    redis.command("FLUSHALL")
    yield
    redis.kill()
    redis.start()
    (redis.folder / "dump.rdb").unlink()


@contextlib.asynccontextmanager
async def stream_trimmed(rounds: Rounds) -> AsyncIterator[None]:
    """XTRIM, again and again: events are gone before all have read them."""
    redis = rounds.fleet.redis

    async def trim() -> None:
        while True:
            redis.command("XTRIM", "{queuegate}:events", "MAXLEN", "0")
            await asyncio.sleep(0.001)

    trimming = asyncio.create_task(trim())
    await asyncio.sleep(0)
    yield
    trimming.cancel()


@contextlib.asynccontextmanager
async def replica_stopped(rounds: Rounds) -> AsyncIterator[None]:
    """SIGSTOP of a replica, which wakes up after the barrier has returned."""
    pid = rounds.fleet.servers["b"].pid
    freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.asynccontextmanager
async def replica_killed(rounds: Rounds) -> AsyncIterator[None]:
    """A kill of a replica, which another process replaces."""
    await rounds.stop("b")
    yield
    await rounds.start("b")


@contextlib.asynccontextmanager
async def replica_cut_off(rounds: Rounds) -> AsyncIterator[None]:
    """A partition between one replica and Redis. The replica has asked the directory alone."""
    await rounds.proxy.refuse()
    await asyncio.sleep(LONGER_THAN_A_LEASE)
    yield
    await rounds.proxy.start()


def _of_replicated(fault: Failover) -> Fault:
    def of_rounds(rounds: Rounds) -> contextlib.AbstractAsyncContextManager[None]:
        assert rounds.replicated is not None
        return fault(rounds.replicated)

    return of_rounds


FAULTS: Final[Mapping[str, Fault]] = {
    "redis-killed": redis_killed,
    "redis-restarted": redis_restarted,
    "redis-stopped": redis_stopped,
    "redis-paused": redis_paused,
    "redis-emptied": redis_emptied,
    "redis-restored": redis_restored,
    "stream-trimmed": stream_trimmed,
    "replica-stopped": replica_stopped,
    "replica-killed": replica_killed,
    "replica-cut-off": replica_cut_off,
}
OF_REPLICATED: Final[Mapping[str, Fault]] = {
    name: _of_replicated(fault) for name, fault in FAILOVERS.items()
}
"""Faults of a Redis with replicas and sentinels, which the fleet then uses."""
TABLES: Final = (FAULTS, OF_REPLICATED)


async def _later(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    await asyncio.sleep(seconds)
    await work()


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    chance: random.Random,
    table: Mapping[str, Fault] = FAULTS,
    *,
    frozen: float = LONG_FREEZE,
    wait: bool = True,
) -> AsyncIterator[Rounds]:
    """Run a fleet that is asked all the time, with the Redis that the faults of a table need.

    Without `wait`, invalidations return before all replicas have carried them out.
    """
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(running_redis(folder / "redis"))
        replicated = None
        if table.keys() <= OF_REPLICATED.keys():
            replicated = stack.enter_context(replicated_redis(folder / "replicated"))
        fleet = Fleet(folder, redis, ScriptedDirectory(folder))
        proxy = Proxy(redis.port)
        await proxy.start()
        rounds = Rounds(fleet, proxy, chance, frozen=frozen, wait=wait, replicated=replicated)
        reading: asyncio.Task[None] | None = None
        try:
            for name in NAMES:
                await rounds.start(name)
            await rounds.start_gate()
            reading = asyncio.create_task(rounds.read())
            yield rounds
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            await rounds.close_gate()
            await proxy.close()
            await asyncio.to_thread(fleet.close)
