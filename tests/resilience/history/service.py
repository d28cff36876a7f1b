"""All servers that run at the same time: one, or the replicas of a fleet on a real Redis."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from queuegate_server.fleet.barrier import ISOLATION_TIMEOUT
from tests.resilience.history.records import Confirmation
from tests.resilience.history.registers import ALL_USERS, USER
from tests.resilience.history.server import CONFIRM_SECONDS, Server
from tests.resilience.history.world import World

REPLICAS = ("a", "b", "c")
CLIENTS, CLIENTS_OF_REPLICA = 10, 4
"""How many ask a server at once."""


class Service:
    """The servers that read the world. They confirm changes."""

    def __init__(self, world: World, fault: str) -> None:
        self.world = world
        self._fault = fault
        self._servers: dict[str, Server] = {}
        self._replacing = asyncio.Lock()
        self._ends = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Run the servers and their clients, in the place of those before. Fail if a client does,
        or another task of the group.
        """
        self._servers, self._ends = {}, False
        async with AsyncExitStack() as self._stack, asyncio.TaskGroup() as self._group:
            names = REPLICAS if self.world.is_fleet else ("",)
            started = [asyncio.create_task(self._start(name)) for name in names]
            await asyncio.gather(*started)
            if self.world.is_fleet:
                # Until a fleet knows that no replica is unknown, its barriers take seconds.
                servers = self._servers.values()
                await asyncio.gather(*(server.invalidate(wait=True) for server in servers))
            yield self._group

    async def stop(self, number: signal.Signals) -> None:
        """End all servers by a signal, and their clients."""
        self._ends = True
        async with self._replacing:
            await asyncio.gather(*(server.stop(number) for server in self._servers.values()))
        for server in self._servers.values():
            server.ask_no_more()

    async def reload_policy(self) -> None:
        """Let all servers read the policy; raise NotConfirmed if it is not used."""
        asked, servers = self._any(), [*self._servers.values()]
        start = time.monotonic()
        response = await asked.reload_policy()
        if response.waited_out or any(each.file == "fleet" for each in response.diagnostics):
            servers = [asked]  # the others may use another policy
        confirmation = Confirmation("policy", start, time.monotonic())
        for server in servers:
            server.confirm(confirmation)

    async def invalidate(self, *users: str) -> None:
        """Let all servers forget users, or all users."""
        asked = self._any()
        wait = self.world.is_fleet and self.world.chance.random() < 0.5
        start = time.monotonic()
        response = await asked.invalidate(*users, wait=wait)
        end = time.monotonic()
        names = [USER + user for user in users] or [ALL_USERS]
        confirmed = [Confirmation(name, start, end) for name in names]
        # A replica uses groups for longer only if it has not learned of it, and lookups fail.
        soon = end if wait else end + ISOLATION_TIMEOUT + self.world.times.lookup_timeout
        unless_failed = [Confirmation(name, start, soon, unless_failed=True) for name in names]
        self.world.recorder.forget(confirmed)
        for server in self._servers.values():
            is_certain = wait and f"replica {server.replica}" not in response.waited_out
            server.confirm(*(confirmed if server is asked or is_certain else unless_failed))

    async def hang_up(self) -> None:
        """Send SIGHUP to all servers, and wait until they have read tokens and roles."""
        for server in [*self._servers.values()]:
            start = time.monotonic()
            await server.hang_up()
            end = time.monotonic()
            server.confirm(*(Confirmation(name, start, end) for name in ("tokens", "roles")))

    async def kill_worker(self) -> Callable[[], Awaitable[None]]:
        """Kill one of several workers; return what waits until another one serves in its place."""
        return await self._any().kill_worker()

    async def replace(self) -> None:
        """Stop or kill a replica, and start another one in its place."""
        chance = self.world.chance
        async with self._replacing:
            if self._ends:
                return
            server = self._any()
            await server.stop(chance.choice((signal.SIGKILL, signal.SIGTERM)))
            server.ask_no_more()
            await asyncio.sleep(chance.uniform(0, 1))
            async with self.world.policy_is_valid:
                await self._start(server.replica)
            await self._until_seen(server.replica)

    async def _start(self, name: str) -> None:
        server = Server(self.world, self._fault, name)
        await self._stack.enter_async_context(server.running())
        self._servers[name] = server
        clients = CLIENTS_OF_REPLICA if name else CLIENTS
        self._group.create_task(server.keep_asking(clients))

    async def _until_seen(self, name: str) -> None:
        """Wait until the other replicas know a new one: a Redis that is emptied before does not
        know it, either.
        """
        begin = time.monotonic()
        async with asyncio.timeout(CONFIRM_SECONDS):
            while not self._ends:
                views = [await each.fleet() for each in self._servers.values()]
                elapsed = time.monotonic() - begin
                if all(
                    any(row.name == name and row.silent_seconds < elapsed for row in view.replicas)
                    for view in views
                ):
                    return
                await asyncio.sleep(0.1)

    def _any(self) -> Server:
        return self.world.chance.choice([*self._servers.values()])
