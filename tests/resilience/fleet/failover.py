"""Faults of a Redis whose sentinels promote another master."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from tests.support.servers.redis_server import RedisServer
from tests.support.servers.sentinels import ReplicatedRedis

Failover = Callable[[ReplicatedRedis], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def failed_over(redis: ReplicatedRedis) -> AsyncIterator[None]:
    """The master is killed, and comes back as a replica of the one that was promoted."""
    async with _beside(_kill, redis):
        yield


@contextlib.asynccontextmanager
async def switched_over(redis: ReplicatedRedis) -> AsyncIterator[None]:
    """SENTINEL FAILOVER. The former master is demoted while clients are connected to it."""
    async with _beside(_switch, redis):
        yield


@contextlib.asynccontextmanager
async def master_stopped(redis: ReplicatedRedis) -> AsyncIterator[None]:
    """SIGSTOP of the master, which still takes itself for the master when it wakes up."""
    async with _beside(_stop, redis):
        yield


@contextlib.asynccontextmanager
async def events_lost(redis: ReplicatedRedis) -> AsyncIterator[None]:
    """The replica that is promoted lacks the newest events, which all replicas of the fleet have
    confirmed.
    """
    master, (replica,) = redis.master, redis.replicas
    _require_replicas(master, 0)
    _require_replicas(replica, 0)
    # When it wakes up, it reads what has already been sent to it.
    replica.freeze()
    master.command("CLIENT", "KILL", "TYPE", "replica")
    try:
        yield
        newest = master.get("{queuegate}:head")
        await asyncio.to_thread(master.kill)
    finally:
        replica.thaw()
    assert await asyncio.to_thread(replica.get, "{queuegate}:head") != newest
    await asyncio.to_thread(_restore, redis, master)
    _require_replicas(replica, 1)


FAILOVERS: Final[Mapping[str, Failover]] = {
    "failed-over": failed_over,
    "switched-over": switched_over,
    "master-stopped": master_stopped,
    "events-lost": events_lost,
}


@contextlib.asynccontextmanager
async def _beside(
    work: Callable[[ReplicatedRedis], None], redis: ReplicatedRedis
) -> AsyncIterator[None]:
    """Do something in another thread, at some time after the body has begun."""

    async def soon() -> None:
        await asyncio.sleep(random.uniform(0, 0.1))
        await asyncio.to_thread(work, redis)

    task = asyncio.create_task(soon())
    yield
    await task


def _kill(redis: ReplicatedRedis) -> None:
    master = redis.master
    master.kill()
    _restore(redis, master)


def _restore(redis: ReplicatedRedis, former: RedisServer) -> None:
    redis.until_failed_over(former)
    former.start()
    redis.follow(former, redis.master)
    redis.until_replicated()


def _switch(redis: ReplicatedRedis) -> None:
    former = redis.master
    redis.fail_over()
    redis.until_failed_over(former)
    # A sentinel does the same some seconds later, and closes the connections of clients.
    redis.follow(former, redis.master)
    redis.until_replicated()


def _stop(redis: ReplicatedRedis) -> None:
    former = redis.master
    former.freeze()
    try:
        redis.until_failed_over(former)
    finally:
        former.thaw()
    redis.until_replicated()


def _require_replicas(server: RedisServer, count: int) -> None:
    answer = server.command("CONFIG", "SET", "min-replicas-to-write", str(count))
    assert answer == b"+OK\r\n", answer
