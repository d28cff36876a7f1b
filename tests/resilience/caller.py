"""A caller that asks all the time and knows every answer. Run as a program.

It takes the address, the deadline of a call in seconds and a list of facts, asks until its
standard input is closed, and then prints what it saw. It is a process of its own, so that
nothing a test does delays it; what the machine makes it wait for the processor is measured
and is not held against the server.
"""

import asyncio
import collections
import contextlib
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import queuegate
from queuegate import aio

TICK = 0.01
WARM = 50
MAX_IN_FLIGHT = 100
TURN = [queuegate.Check("alice", "root.turn"), queuegate.Check("bob", "root.turn")]
"""Exactly one of these is allowed by whatever policy is served."""


class Fact(NamedTuple):
    user: str
    groups: list[str]
    queue: str
    allowed: bool


class Caller:
    def __init__(self, client: aio.Client, deadline: float, facts: list[Fact]) -> None:
        self.client = client
        self.deadline = deadline
        self.facts = facts
        self.ended = asyncio.Event()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.late: list[float] = []
        self.longest = 0.0
        self.answered: list[int] = []
        self.delays = collections.deque([(time.monotonic(), 0.0)], maxlen=6_000)
        """By time, how long this process could not run so far."""

    async def run(self) -> None:
        ticking = asyncio.create_task(self.measure_delays())
        running: set[asyncio.Task[None]] = set()
        number = 0
        begin = time.monotonic()
        while not self.ended.is_set():
            if number == WARM:
                await asyncio.gather(*running)
                print("asking", flush=True)
            if len(running) < MAX_IN_FLIGHT:
                task = asyncio.create_task(self.turn() if number % 20 == 0 else self.ask(number))
                running.add(task)
                task.add_done_callback(running.discard)
                number += 1
            await asyncio.sleep(TICK)
        await asyncio.gather(*running)
        ticking.cancel()
        seconds = time.monotonic() - begin
        report: dict[str, Any] = {
            "calls": number,
            "seconds": seconds,
            "outcomes": self.outcomes,
            "wrong": self.wrong,
            "late": self.late,
            "longest": self.longest,
            "answered": self.answered,
        }
        print(json.dumps(report))

    async def ask(self, number: int) -> None:
        user, groups, queue, allowed = self.facts[number % len(self.facts)]
        begin = time.monotonic()
        try:
            # A queue of its own, which does not exist: its decision is that of the one above.
            queue = f"{queue}.n{number}"
            decision = await self.client.check(user, queue, groups=groups or None)
        except queuegate.QueuegateError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["answered"] += 1
            self.answered.append(number)
            if decision.allowed is not allowed:
                self.wrong.append(f"{user} {queue}: {decision}")
        await self.check_deadline(begin)

    async def turn(self) -> None:
        begin = time.monotonic()
        try:
            results = await self.client.check_many(TURN)
        except queuegate.QueuegateError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["answered"] += 1
            if sum(map(bool, results)) != 1:
                self.wrong.append(f"turn: {results}")
        await self.check_deadline(begin)

    async def check_deadline(self, begin: float) -> None:
        end = time.monotonic()
        self.longest = max(self.longest, end - begin)
        over = end - begin - self.deadline
        if over > 0.05:
            await asyncio.sleep(5 * TICK)
            before = max(delay for at, delay in self.delays if at <= begin + self.deadline)
            over -= self.delays[-1][1] - before
            if over > 0.05:
                self.late.append(over)

    async def measure_delays(self) -> None:
        """Add up how long this loop was late, and its threads waited for a processor."""
        late = 0.0
        waited = RunQueueDelay()
        while True:
            begin = time.monotonic()
            await asyncio.sleep(TICK)
            now = time.monotonic()
            late += now - begin - TICK
            self.delays.append((now, late + waited.seconds()))


class RunQueueDelay:
    """Adds up how long the threads of this process were ready to run and did not."""

    def __init__(self) -> None:
        self.by_thread: dict[str, int] = {}

    def seconds(self) -> float:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                waited = int((thread / "schedstat").read_text().split()[1])
                self.by_thread[thread.name] = waited
        return sum(self.by_thread.values()) / 1e9


async def main(address: str, deadline: float, facts: list[Fact]) -> None:
    loop = asyncio.get_running_loop()
    async with aio.Client(address, timeout=deadline) as client:
        caller = Caller(client, deadline, facts)

        def wait_for_the_end() -> None:
            sys.stdin.read()
            loop.call_soon_threadsafe(caller.ended.set)

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        await caller.run()


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1], float(sys.argv[2]), [Fact(*one) for one in json.loads(sys.argv[3])])
    )
