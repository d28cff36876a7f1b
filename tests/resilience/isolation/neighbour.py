"""A caller who asks a server steadily while others try to take it. Run as a program.

It takes the server's address and process id, and asks a hundred times a second without any retry,
every fiftieth time over a new connection, until its standard input is closed. For each line there
it prints the latencies in seconds and the outcomes of its calls since the line before. Time in
which its own threads, or one of the server's, were ready to run and the machine ran something else
is subtracted.
"""

import asyncio
import collections
import json
import sys
import threading
import time
from pathlib import Path

import grpc
import grpc.aio

from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.user_group_information_pb2 import UserGroupInformation

TICK = 0.01
DEADLINE = 5.0
CALLS_PER_CONNECTION = 50
MAX_IN_FLIGHT = 600
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
ALICE = UserGroupInformation(user="alice")


class Neighbour:
    def __init__(self, address: str, server: int) -> None:
        self.address = address
        self.threads = [Path(f"/proc/{server}/task"), Path("/proc/self/task")]
        self.ended = asyncio.Event()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.latencies: list[float] = []

    async def run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        number = 0
        async with grpc.aio.insecure_channel(self.address, OPTIONS) as channel:
            while not self.ended.is_set():
                if len(running) < MAX_IN_FLIGHT:
                    is_new = number % CALLS_PER_CONNECTION == 0
                    task = asyncio.create_task(self.connect() if is_new else self.ask(channel))
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

    async def connect(self) -> None:
        async with grpc.aio.insecure_channel(self.address, OPTIONS) as channel:
            await self.ask(channel)

    async def ask(self, channel: grpc.aio.Channel) -> None:
        waited = [_waits(folder) for folder in self.threads]
        begin = time.monotonic()
        # A queue that does not exist is decided by the one above it, and is not cached yet.
        question = access_pb2.CheckQueueAccessRequest(
            user=ALICE, queue=f"root.open.n{begin}", access=access_pb2.ACCESS_TYPE_SUBMIT
        )
        try:
            answer = await AccessServiceStub(channel).CheckQueueAccess(question, timeout=DEADLINE)
        except grpc.aio.AioRpcError as error:
            self.outcomes[f"{error.code().name}: {error.details()}"] += 1
            return
        seconds = time.monotonic() - begin
        self.outcomes["answered" if answer.allowed else "wrong"] += 1
        for folder, before in zip(self.threads, waited, strict=True):
            now = _waits(folder)
            seconds -= max((now[thread] - before.get(thread, 0) for thread in now), default=0) / 1e9
        self.latencies.append(max(0.0, seconds))


def _waits(folder: Path) -> dict[str, int]:
    """Return how long each thread has waited for a processor so far, in nanoseconds."""
    waits = {}
    try:
        for thread in folder.iterdir():
            waits[thread.name] = int((thread / "schedstat").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):  # a thread has ended
        pass
    return waits


async def main(address: str, server: int) -> None:
    loop = asyncio.get_running_loop()
    neighbour = Neighbour(address, server)

    def read_lines() -> None:
        for _ in sys.stdin:
            loop.call_soon_threadsafe(neighbour.report)
        loop.call_soon_threadsafe(neighbour.ended.set)

    threading.Thread(target=read_lines, daemon=True).start()
    await neighbour.run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
