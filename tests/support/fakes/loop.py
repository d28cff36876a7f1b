"""Waits for effects of the event loop and threads instead of for time to pass."""

import asyncio
from collections.abc import Callable


async def run_ready_callbacks() -> None:
    """Let everything run that can run now."""
    for _ in range(10):
        await asyncio.sleep(0)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for the effect of a thread, bounded by the test's time limit."""
    while not condition():  # noqa: ASYNC110 - threads set no asyncio events
        await asyncio.sleep(0.001)
