"""Everything that happens to the server while clients ask: the groups of users, the policy, tokens
and roles change, caches are invalidated, processes are killed. In a fleet, Redis also fails.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from tests.resilience.history import model
from tests.resilience.history.server import NotConfirmed
from tests.resilience.history.service import Service
from tests.resilience.history.world import SLOW, World
from tests.support.servers.redis_server import RedisServer

MAX_OUTAGE = 20.0
MAX_REDIS_OUTAGE = 3.0
"""Longer than a replica may use groups without Redis."""
TRIM = ("XTRIM", "{queuegate}:events", "MAXLEN", "0")
START_SECONDS = 1.5
"""About what a worker needs to start."""


class Events:
    """Changes the world, and lets the server know or not."""

    def __init__(
        self,
        world: World,
        service: Service,
        *,
        invalidates: bool,
        kills: bool,
        redis: RedisServer | None,
    ) -> None:
        """Invalidate groups, or see how long they live; kill workers, or not; with the Redis of a
        fleet, disturb it and its replicas.
        """
        self._invalidates = invalidates
        self._kills = kills
        self._redis = redis
        self._world = world
        self._service = service
        self._chance = world.chance
        self._counts = world.counts
        self._one_change_of_rights = asyncio.Lock()
        self._one_change_of_directory = asyncio.Lock()
        self._one_fault_of_fleet = asyncio.Lock()
        self.ended = asyncio.Event()

    async def cause(self) -> None:
        """Cause events until `ended` is set; an event that has begun is completed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._repeat(0.0, 0.2, self._groups))
            group.create_task(self._repeat(0.0, 0.2, self._groups))
            group.create_task(self._repeat(0.2, 1.2, self._policy))
            group.create_task(self._repeat(0.2, 1.2, self._rights))
            if self._invalidates:
                group.create_task(self._repeat(0.1, 0.8, self._invalidation))
            else:
                group.create_task(self._repeat(0.5, 5.0, self._outage))
            if self._kills:
                group.create_task(self._repeat(1.0, 4.0, self._kill))
            if self._redis is not None:
                group.create_task(self._repeat(1.0, 8.0, partial(self._disturb, self._redis)))
                group.create_task(self._repeat(2.0, 15.0, self._replace))

    async def _repeat(
        self, least: float, most: float, event: Callable[[], Awaitable[None]]
    ) -> None:
        while not await self._ends_within(self._chance.uniform(least, most)):
            try:
                await event()
            except NotConfirmed:
                self._counts["not confirmed"] += 1

    async def _ends_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        return self.ended.is_set()

    async def _groups(self) -> None:
        user = self._chance.choice(model.USERS)
        invalidates = self._invalidates and self._chance.random() < 0.5
        # Twice: clients look the user up in between, and may get the answer after the second time.
        for _ in range(self._chance.choice((1, 2))):
            async with self._one_change_of_directory:
                self._world.change_groups(user)
            if invalidates:
                await self._service.invalidate(user)
                self._counts["invalidations"] += 1
                await asyncio.sleep(self._chance.choice(SLOW))

    async def _outage(self) -> None:
        """Take the directory away, perhaps for longer than groups may be used without it."""
        async with self._one_change_of_directory:
            self._world.take_directory_away()
            await self._ends_within(self._chance.uniform(0, MAX_OUTAGE))
            for user in model.USERS:
                self._world.change_groups(user, certain=True)
            self._counts["outages"] += 1

    async def _invalidation(self) -> None:
        users = self._chance.sample(model.USERS, self._chance.choice((0, 1, 3)))
        await self._service.invalidate(*users)
        self._counts["invalidations"] += 1

    async def _policy(self) -> None:
        async with self._world.policy_is_valid:
            if self._chance.random() < 0.1:
                self._world.break_policy()
                with suppress(NotConfirmed):
                    await self._service.reload_policy()
            again = self._chance.random() < 0.15
            self._world.change_policy(self._world.an_earlier_policy() if again else None)
        # Otherwise the server notices by itself.
        if self._chance.random() < 0.6:
            await self._service.reload_policy()
            self._counts["reloads"] += 1

    async def _rights(self) -> None:
        async with self._one_change_of_rights:
            if self._chance.random() < 0.7:
                self._world.change_tokens(self._world.some_tokens())
            if self._chance.random() < 0.7:
                self._world.change_roles(self._world.some_roles())
            if self._chance.random() < 0.8:
                await self._service.hang_up()
                self._counts["hang-ups"] += 1

    async def _kill(self) -> None:
        replaced = await self._service.kill_worker()
        self._counts["kills of a worker"] += 1
        # Something changes while the worker that replaces it starts.
        await asyncio.sleep(self._chance.uniform(0, START_SECONDS))
        await self._chance.choice((self._rights, self._rights, self._policy))()
        await replaced()

    async def _disturb(self, redis: RedisServer) -> None:
        """Let Redis lose everything, or not answer for a moment."""
        async with self._one_fault_of_fleet:
            seconds = self._chance.uniform(0, MAX_REDIS_OUTAGE)
            match self._chance.choice(("emptied", "trimmed", "paused", "killed")):
                case "emptied":
                    await asyncio.to_thread(redis.command, "FLUSHALL")
                    self._counts["Redis emptied"] += 1
                case "trimmed":
                    await asyncio.to_thread(redis.command, *TRIM)
                    self._counts["Redis trimmed"] += 1
                case "paused":
                    await asyncio.to_thread(redis.pause, int(seconds * 1000))
                    await asyncio.sleep(seconds)
                    self._counts["Redis paused"] += 1
                case "killed":
                    await asyncio.to_thread(redis.kill)
                    await asyncio.sleep(seconds)
                    await asyncio.to_thread(redis.start)
                    self._counts["Redis killed"] += 1

    async def _replace(self) -> None:
        async with self._one_fault_of_fleet:
            await self._service.replace()
            self._counts["replaced replicas"] += 1
