"""One server process of a round, its clients, and what it can be asked to do."""

import asyncio
import itertools
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from queuegate.v1 import policy_pb2, policy_pb2_grpc, user_groups_pb2, user_groups_pb2_grpc
from tests.resilience.history.clients import OPTIONS, keep_asking
from tests.resilience.history.recorder import Recorder
from tests.resilience.history.records import Confirmation, History
from tests.resilience.history.world import World
from tests.support.fakes.notify_socket import NotifySocket
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.servers.workers import is_alive, is_child

CONFIRM_SECONDS = 60.0
_sockets = itertools.count()


class NotConfirmed(Exception):
    """The server did not confirm a change; what it uses is unknown."""


class Server:
    """A server process that reads the world: the only one, or a replica of a fleet."""

    history: History
    process: RunningServer

    def __init__(self, world: World, fault: str, replica: str = "") -> None:
        self.replica = replica
        self._world = world
        self._program = Path(__file__).with_name("planted.py") if fault else None
        self._fault = fault
        self._ended = asyncio.Event()
        self._chance = random.Random(world.chance.random())
        self._hung_up = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it; a replica follows the fleet then."""
        begin = time.monotonic()
        arguments = ["--set", f"fleet.replica={self.replica}"] if self.replica else []
        async with AsyncExitStack() as stack:
            self._manager = stack.enter_context(
                NotifySocket(f"@queuegate-history-{os.getpid()}-{next(_sockets)}")
            )
            starting = running_server(
                *("--config", self._world.config, *arguments),
                program=self._program,
                environment={
                    "PLANTED": self._fault,
                    **self._world.directory.environment,
                    **self._manager.environment,
                },
            )
            self.process = await asyncio.to_thread(stack.enter_context, starting)
            await asyncio.to_thread(self._manager.wait_for, "READY=1")
            if self.replica:
                await asyncio.to_thread(self.process.wait_for_log, "following the fleet")
            channel = await stack.enter_async_context(
                grpc.aio.insecure_channel(self.process.address, options=OPTIONS)
            )
            self._policy = policy_pb2_grpc.PolicyServiceStub(channel)
            self._groups = user_groups_pb2_grpc.UserGroupServiceStub(channel)
            self.history = self._world.recorder.begin(begin)
            yield

    async def keep_asking(self, clients: int) -> None:
        """Ask until it has ended."""
        address = self.process.address
        await keep_asking(address, self.history, self._chance, self._ended, clients)

    async def stop(self, number: signal.Signals) -> None:
        """End it by a signal."""
        Recorder.stop(self.history)
        self.process.process.send_signal(number)
        await asyncio.to_thread(self.process.process.wait, CONFIRM_SECONDS)

    def ask_no_more(self) -> None:
        """Let its clients end."""
        self._ended.set()

    def confirm(self, *confirmations: Confirmation) -> None:
        """Note what it has confirmed."""
        self.history.confirmations += confirmations

    async def reload_policy(self) -> policy_pb2.ReloadPolicyResponse:
        """Let it read the policy; raise NotConfirmed if it is not used."""
        request = policy_pb2.ReloadPolicyRequest()
        response: policy_pb2.ReloadPolicyResponse = await _confirmed(
            self._policy.ReloadPolicy(request, timeout=CONFIRM_SECONDS)
        )
        if not response.succeeded:
            raise NotConfirmed("the policy is not valid")
        return response

    async def invalidate(
        self, *users: str, wait: bool
    ) -> user_groups_pb2.InvalidateUserGroupsResponse:
        """Let it forget users, or all of them."""
        request = user_groups_pb2.InvalidateUserGroupsRequest(users=users, wait=wait)
        response: user_groups_pb2.InvalidateUserGroupsResponse = await _confirmed(
            self._groups.InvalidateUserGroups(request, timeout=CONFIRM_SECONDS)
        )
        return response

    async def fleet(self) -> policy_pb2.GetFleetResponse:
        """Return the fleet as it sees it."""
        response: policy_pb2.GetFleetResponse = await _confirmed(
            self._policy.GetFleet(policy_pb2.GetFleetRequest(), timeout=CONFIRM_SECONDS)
        )
        return response

    async def hang_up(self) -> None:
        """Send SIGHUP, and wait until it has read tokens and roles."""
        self._expect_alive()
        self.process.process.send_signal(signal.SIGHUP)
        self._hung_up += 1
        async with asyncio.timeout(CONFIRM_SECONDS):
            while self._manager.count("READY=1") <= self._hung_up:
                self._expect_alive()
                await asyncio.sleep(0.005)

    async def kill_worker(self) -> Callable[[], Awaitable[None]]:
        """Kill one of several workers; return what waits until another one serves in its place."""
        index, pid = self._chance.choice(list(self._workers().items()))
        if not is_child(pid, self.process.pid):
            raise NotConfirmed("the worker has ended")
        with Recorder.kill(self.history):
            os.kill(pid, signal.SIGKILL)
            while is_alive(pid):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.002)

        async def replaced() -> None:
            while self._workers()[index] == pid:
                self._expect_alive()
                await asyncio.sleep(0.02)

        return replaced

    def _expect_alive(self) -> None:
        if self.process.process.poll() is not None:
            raise NotConfirmed("the server has ended")

    def _workers(self) -> dict[int, int]:
        entries = (
            json.loads(line) for line in self.process.errors if "a worker is serving" in line
        )
        return {entry["index"]: entry["pid"] for entry in entries}


async def _confirmed(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise NotConfirmed(error.code().name) from error
