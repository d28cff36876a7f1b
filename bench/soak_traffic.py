"""The traffic of the soak, in a separate process: single checks, batches and explanations, all with
known answers. Prints a line of JSON per interval.
"""

import asyncio
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bench.big_directory import Size, groups_of, user
from queuegate import Check, Decision
from queuegate.aio import Client
from queuegate.exceptions import QueuegateError

SIZE: Final = Size(5_000, 200)
TEAM: Final = 7
"""The group that may submit to the queue in all questions."""
QUEUE: Final = "root.team"
DEADLINE: Final = 1.0
_KNOWN: Final = 2_000
_BATCH: Final = 50
_PER_SECOND: Final = {"check": 400, "explain": 40, "batch": 20}
_MAX_AT_ONCE: Final = 500


class Traffic:
    """Asks, and counts the outcomes in the current interval."""

    def __init__(self, client: Client) -> None:
        """Create traffic through this client."""
        self._client = client
        self._allowed = [TEAM in groups_of(number, SIZE) for number in range(_KNOWN)]
        self._numbers = itertools.cycle(range(_KNOWN))
        self.ended = asyncio.Event()
        self.reset()

    def reset(self) -> None:
        """Start an interval."""
        self.decisions = self.wrong = self.failed = self.late = 0
        self.latencies: list[float] = []

    async def check(self) -> None:
        """Ask one question."""
        number = next(self._numbers)
        self.judge(number, await self._client.check(user(number), QUEUE))

    async def explain(self) -> None:
        """Ask for an explanation."""
        number = next(self._numbers)
        self.judge(number, (await self._client.explain(user(number), QUEUE)).decision)

    async def batch(self) -> None:
        """Ask many at once. If one has no answer, the batch fails."""
        numbers = list(itertools.islice(self._numbers, _BATCH))
        asked = [Check(user(number), QUEUE) for number in numbers]
        for number, result in zip(numbers, await self._client.check_many(asked), strict=True):
            if isinstance(result, Decision):
                self.judge(number, result)
            else:
                self.failed += 1

    def judge(self, number: int, decision: Decision) -> None:
        """Compare an answer with the expected one."""
        self.decisions += 1
        self.wrong += bool(decision) is not self._allowed[number]

    async def timed(self, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Ask, and record the duration."""
        begin = time.monotonic()
        try:
            await ask()
        except QueuegateError:
            self.failed += 1
        seconds = time.monotonic() - begin
        self.latencies.append(seconds * 1000)
        self.late += seconds > DEADLINE + 0.05

    async def regularly(
        self, ask: Callable[[], Coroutine[Any, Any, None]], per_second: float
    ) -> None:
        """Ask at a fixed rate, regardless of earlier calls."""
        running: set[asyncio.Task[None]] = set()
        begin, number = time.monotonic(), 0
        while not self.ended.is_set():
            number += 1
            await asyncio.sleep(max(0.0, begin + number / per_second - time.monotonic()))
            if len(running) >= _MAX_AT_ONCE:
                self.failed += 1
                continue
            task = asyncio.create_task(self.timed(ask))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)


async def _ask(address: str, interval: float) -> None:
    loop = asyncio.get_running_loop()
    async with Client(address, timeout=DEADLINE) as client:
        traffic = Traffic(client)

        def wait_for_the_end() -> None:
            sys.stdin.read()
            loop.call_soon_threadsafe(traffic.ended.set)

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        await _warm(client)
        async with asyncio.TaskGroup() as group:
            for name, rate in _PER_SECOND.items():
                group.create_task(traffic.regularly(getattr(traffic, name), rate))
            while not traffic.ended.is_set():
                begin = time.monotonic()
                await asyncio.sleep(interval)
                told = {
                    "seconds": time.monotonic() - begin,
                    "decisions": traffic.decisions,
                    "wrong": traffic.wrong,
                    "failed": traffic.failed,
                    "late": traffic.late,
                    "latencies": [round(latency, 3) for latency in traffic.latencies],
                }
                traffic.reset()
                print(json.dumps(told), flush=True)


async def _warm(client: Client) -> None:
    for start in range(0, _KNOWN, _BATCH):
        asked = [Check(user(number), QUEUE) for number in range(start, start + _BATCH)]
        await client.check_many(asked, timeout=20)


if __name__ == "__main__":
    asyncio.run(_ask(sys.argv[1], float(sys.argv[2])))
