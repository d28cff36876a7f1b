"""A caller that calls one address in a loop, with the retries of the client.

Run as a program. Prints how many calls it made, and what the caller saw fail.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

import queuegate
from queuegate import aio

# Few calls at once: each lost connection costs as many of gRPC's retry tokens, and with half of
# them gone it stops trying again. A killed process may take a second connection along.
TASKS = 8
PAUSE = 0.01


async def ask(address: str) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    calls, failed, begin = 0, [], time.monotonic()
    async with aio.Client(address, timeout=60) as client:

        async def one() -> None:
            nonlocal calls
            while not ended.is_set():
                try:
                    if not await client.check("alice", "root.x"):
                        failed.append("denied")
                except queuegate.QueuegateError as error:
                    failed.append(repr(error))
                calls += 1
                await asyncio.sleep(PAUSE)

        await client.check("alice", "root.x")
        print("asking", flush=True)
        await asyncio.gather(*(one() for _ in range(TASKS)))
    print(json.dumps({"calls": calls, "failed": failed, "seconds": time.monotonic() - begin}))


class Load:
    """Run callers, each a process with one connection, during the block."""

    def __init__(self, address: str, processes: int = 2) -> None:
        self._address = address
        self._count = processes
        self._processes: list[subprocess.Popen[str]] = []
        self.calls = 0
        self.per_second = 0.0
        self.failed: list[str] = []

    def __enter__(self) -> Self:
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, self._address],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(self._count)
        ]
        for process in self._processes:
            assert process.stdout
            assert process.stdout.readline() == "asking\n"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            try:
                output, _ = process.communicate(timeout=100)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            result = json.loads(output)
            self.calls += result["calls"]
            self.per_second += result["calls"] / result["seconds"]
            self.failed += result["failed"]


if __name__ == "__main__":
    asyncio.run(ask(sys.argv[1]))
