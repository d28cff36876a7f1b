"""A caller who asks a server steadily while others try to take it. Run as a program.

It takes the server's address and process id, and for a webhook a PEM file with its authority, or
the queues to ask about in turn, which must admit alice. It asks a hundred times a second without
any retry, now and then over a new connection, until its standard input is closed. For each line
there it prints the latencies in seconds and the outcomes of its calls since the line before. Time
in which one of its own threads, or of the server's, was ready to run and the machine ran something
else is subtracted.
"""

import asyncio
import collections
import contextlib
import http
import itertools
import json
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import grpc
import grpc.aio

from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

TICK = 0.01
DEADLINE = 5.0
CALLS_PER_CONNECTION = 50
REVIEWS_PER_CONNECTION = 80
"""API servers keep their connections. In a wave of connections a new one waits for the handshakes
of those that came before it."""
MAX_IN_FLIGHT = 600
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
ALICE = UserGroupInformation(user="alice")
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "kind": {"kind": "Pod"},
        "operation": "CREATE",
        "namespace": "dev",
        "userInfo": {"username": "bob", "groups": ["dev"]},
        "object": {"metadata": {"name": "p"}, "spec": {}},
    },
}

Ask = Callable[[], Awaitable[str]]
"""Asks once and returns the outcome: answered, wrong, or the error."""


@asynccontextmanager
async def channel_to_server(address: str, queues: Iterator[str]) -> AsyncIterator[Ask]:
    async with grpc.aio.insecure_channel(address, OPTIONS) as channel:

        async def ask() -> str:
            # A queue that does not exist is decided by the one above it, and is not cached yet.
            question = access_pb2.CheckQueueAccessRequest(
                user=ALICE,
                queue=f"{next(queues)}.n{time.monotonic_ns()}",
                access=access_pb2.ACCESS_TYPE_SUBMIT,
            )
            try:
                answer = await AccessServiceStub(channel).CheckQueueAccess(
                    question, timeout=DEADLINE
                )
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
            return "answered" if answer.allowed else "wrong"

        yield ask


@asynccontextmanager
async def session_with_webhook(address: str, context: ssl.SSLContext) -> AsyncIterator[Ask]:
    """As in an API server, a call takes a connection that is idle, or a new one."""
    url = f"https://{address}/mutate"
    timeout = aiohttp.ClientTimeout(total=DEADLINE)
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def ask() -> str:
            try:
                async with session.post(url, json=REVIEW) as response:
                    if response.status != http.HTTPStatus.OK:
                        return f"{response.status}: {await response.text()}"
                    answer = await response.json()
            except (aiohttp.ClientError, TimeoutError) as error:
                return repr(error)
            return "answered" if answer["response"]["allowed"] else "wrong"

        yield ask


class Neighbour:
    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Ask]],
        server: int,
        calls_per_connection: int,
    ) -> None:
        self.connect = connect
        self.calls_per_connection = calls_per_connection
        self.threads = [Path(f"/proc/{server}/task"), Path("/proc/self/task")]
        self.ended = asyncio.Event()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.latencies: list[float] = []

    async def run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        number = 0
        async with self.connect() as ask:
            while not self.ended.is_set():
                if len(running) < MAX_IN_FLIGHT:
                    is_new = number % self.calls_per_connection == 0
                    task = asyncio.create_task(self.ask_anew() if is_new else self.ask(ask))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    number += 1
                await asyncio.sleep(TICK)
            await asyncio.gather(*running)

    def report(self) -> None:
        """Print what happened since the last report."""
        print(json.dumps({"outcomes": self.outcomes, "latencies": self.latencies}), flush=True)
        self.outcomes.clear()
        self.latencies.clear()

    async def ask_anew(self) -> None:
        async with self.connect() as ask:
            await self.ask(ask)

    async def ask(self, ask: Ask) -> None:
        waited = [_waits(folder) for folder in self.threads]
        begin = time.monotonic()
        outcome = await ask()
        seconds = time.monotonic() - begin
        self.outcomes[outcome] += 1
        if outcome != "answered":
            return
        for folder, before in zip(self.threads, waited, strict=True):
            now = _waits(folder)
            both = now.keys() & before.keys()
            seconds -= max((now[thread] - before[thread] for thread in both), default=0) / 1e9
        self.latencies.append(max(0.0, seconds))


def _waits(folder: Path) -> dict[str, int]:
    """Return how long each thread has waited for a processor so far, in nanoseconds."""
    waits = {}
    with contextlib.suppress(FileNotFoundError):  # the process has ended
        for thread in folder.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has
                waits[thread.name] = int((thread / "schedstat").read_text().split()[1])
    return waits


async def main(address: str, server: str, authority: str = "", *queues: str) -> None:
    if authority:
        context = ssl.create_default_context(cafile=authority)
        neighbour = Neighbour(
            lambda: session_with_webhook(address, context), int(server), REVIEWS_PER_CONNECTION
        )
    else:
        names = itertools.cycle(queues or ("root.open",))
        neighbour = Neighbour(
            lambda: channel_to_server(address, names), int(server), CALLS_PER_CONNECTION
        )
    loop = asyncio.get_running_loop()

    def read_lines() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(neighbour.report)
        loop.call_soon_threadsafe(neighbour.ended.set)

    threading.Thread(target=read_lines, daemon=True).start()
    await neighbour.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
