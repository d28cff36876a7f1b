"""Long work in steps: its result, its errors, and the pauses for others."""

import asyncio
import time
from collections.abc import Generator

import pytest

from queuegate_server.runtime.event_loop import STEP_SECONDS, run_at_once, run_with_pauses

STEPS = 5


def busy(steps: int = STEPS) -> Generator[None, None, int]:
    """Take longer than a step may take between two yields."""
    for _ in range(steps):
        end = time.perf_counter() + 2 * STEP_SECONDS
        while time.perf_counter() < end:
            pass
        yield
    return steps


def failing() -> Generator[None, None, int]:
    yield
    raise KeyError


async def test_work_returns_its_result() -> None:
    assert run_at_once(busy()) == await run_with_pauses(busy()) == STEPS


async def test_work_raises_its_error() -> None:
    with pytest.raises(KeyError):
        run_at_once(failing())
    with pytest.raises(KeyError):
        await run_with_pauses(failing())


async def test_pauses_are_as_long_as_the_work() -> None:
    started = time.perf_counter()
    await run_with_pauses(busy())
    assert time.perf_counter() - started >= STEPS * 2 * STEP_SECONDS * 2


async def test_short_steps_share_a_pause() -> None:
    def work() -> Generator[None, None, None]:
        for _ in range(1_000):
            yield

    sleeps = 0

    async def count() -> None:
        nonlocal sleeps
        while True:
            await asyncio.sleep(0)
            sleeps += 1

    counting = asyncio.create_task(count())
    started = time.perf_counter()
    await run_with_pauses(work())
    counting.cancel()
    assert sleeps > 0
    assert time.perf_counter() - started < 0.5
