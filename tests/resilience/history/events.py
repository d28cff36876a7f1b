"""Everything that happens to the server while clients ask: the groups of users, the policy, tokens
and roles change, caches are invalidated, processes are killed.
"""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from queuegate.v1 import policy_pb2, policy_pb2_grpc, user_groups_pb2, user_groups_pb2_grpc
from tests.resilience.history import model
from tests.resilience.history.clients import OPTIONS
from tests.resilience.history.registers import ALL_USERS, USER
from tests.resilience.history.world import SLOW, World
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.servers.queuegate_server import running_server
from tests.support.servers.workers import is_alive, is_child

CONFIRM_SECONDS = 60.0
MAX_OUTAGE = 20.0
START_SECONDS = 1.5
"""About what a worker needs to start."""
_sockets = itertools.count()


class NotConfirmed(Exception):
    """The server did not confirm a change; what it uses is unknown."""


class Service:
    """The server that reads the world; one after the other."""

    def __init__(self, world: World, fault: str) -> None:
        self.world = world
        self._program = Path(__file__).with_name("planted.py") if fault else None
        self._fault = fault
        self._hung_up = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a server, in the place of the one before."""
        with ExitStack() as stack:
            self._manager = stack.enter_context(
                NotifySocket(f"@queuegate-history-{os.getpid()}-{next(_sockets)}")
            )
            server = running_server(
                "--config",
                self.world.config,
                program=self._program,
                environment={
                    "PLANTED": self._fault,
                    **self.world.directory.environment,
                    **self._manager.environment,
                },
            )
            self.world.recorder.begin()
            self.server = await asyncio.to_thread(stack.enter_context, server)
            await asyncio.to_thread(self._manager.wait_for, "READY=1")
            self._hung_up = 0
            async with grpc.aio.insecure_channel(self.server.address, options=OPTIONS) as channel:
                self._policy = policy_pb2_grpc.PolicyServiceStub(channel)
                self._groups = user_groups_pb2_grpc.UserGroupServiceStub(channel)
                yield

    async def stop(self, number: signal.Signals) -> None:
        """End the server by a signal."""
        self.world.recorder.stop()
        self.server.process.send_signal(number)
        await asyncio.to_thread(self.server.process.wait, CONFIRM_SECONDS)

    async def reload_policy(self) -> None:
        """Let the server read the policy; raise NotConfirmed if it is not used."""
        request = policy_pb2.ReloadPolicyRequest()
        with self.world.recorder.confirmation("policy"):
            response = await _confirmed(self._policy.ReloadPolicy(request, timeout=CONFIRM_SECONDS))
            if not response.succeeded:
                raise NotConfirmed("the policy is not valid")

    async def invalidate(self, *users: str) -> None:
        """Let the server forget users, or all of them."""
        request = user_groups_pb2.InvalidateUserGroupsRequest(users=users)
        names = [USER + user for user in users] or [ALL_USERS]
        with self.world.recorder.confirmation(*names):
            await _confirmed(self._groups.InvalidateUserGroups(request, timeout=CONFIRM_SECONDS))

    async def hang_up(self) -> None:
        """Send SIGHUP, and wait until the server has read tokens and roles."""
        with self.world.recorder.confirmation("tokens", "roles"):
            self._expect_alive()
            self.server.process.send_signal(signal.SIGHUP)
            self._hung_up += 1
            async with asyncio.timeout(CONFIRM_SECONDS):
                while self._manager.count("READY=1") <= self._hung_up:
                    self._expect_alive()
                    await asyncio.sleep(0.005)

    async def kill_worker(self) -> Callable[[], Awaitable[None]]:
        """Kill one of several workers; return what waits until another one serves in its place."""
        index, pid = self.world.chance.choice(list(self._workers().items()))
        if not is_child(pid, self.server.pid):
            raise NotConfirmed("the worker has ended")
        with self.world.recorder.kill():
            os.kill(pid, signal.SIGKILL)
            while is_alive(pid):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.002)

        async def replaced() -> None:
            while self._workers()[index] == pid:
                self._expect_alive()
                await asyncio.sleep(0.02)

        return replaced

    def _expect_alive(self) -> None:
        if self.server.process.poll() is not None:
            raise NotConfirmed("the server has ended")

    def _workers(self) -> dict[int, int]:
        entries = (json.loads(line) for line in self.server.errors if "a worker serves" in line)
        return {entry["index"]: entry["pid"] for entry in entries}


async def _confirmed(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise NotConfirmed(error.code().name) from error


class Events:
    """Changes the world, and lets the server know or not."""

    def __init__(self, world: World, service: Service, *, invalidates: bool, kills: bool) -> None:
        """Invalidate groups, or see how long they live; kill workers, or not."""
        self._invalidates = invalidates
        self._kills = kills
        self._world = world
        self._service = service
        self._chance = world.chance
        self._counts = world.counts
        self._one_change_of_rights = asyncio.Lock()
        self._one_change_of_directory = asyncio.Lock()
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
