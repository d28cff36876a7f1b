"""Long work on the event loop, and the steps in which it is done."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

MAX_STEP: Final = 0.1
"""Seconds of processor time between two turns of other work on the event loop."""
MAX_SHARE: Final = 0.1
"""The share of all the work that one step may take if that is longer than `MAX_STEP`. On a slow
machine, every step is longer, but each is still a small part of the whole."""


def finish(work: Iterator[None]) -> Any:
    """Do work that yields where a step may end; return the generator's result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@asynccontextmanager
async def bounded_steps() -> AsyncIterator[None]:
    """Measure the steps of the event loop in processor time, which a busy machine does not
    lengthen.
    """
    steps: list[float] = []
    # A server seldom collects all objects (runtime/resources.py); here that would be a step.
    gc.disable()

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            steps.append(time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    steps.clear()
    try:
        yield
    finally:
        ticking.cancel()
        gc.enable()
    assert max(steps, default=0) < max(MAX_STEP, MAX_SHARE * sum(steps))
