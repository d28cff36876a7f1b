"""Long work in steps: its result, its errors, and the pauses for others."""

import asyncio
import time
from collections.abc import Generator

import pytest

from queuegate_server.runtime import pacing
from queuegate_server.runtime.pacing import (
    FIRST_STEP_SECONDS,
    STEP_SECONDS,
    run_with_pauses,
    turn_with_pause,
)

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
    turn = asyncio.Lock()
    assert await run_with_pauses(busy(), turn) == await run_with_pauses(busy()) == STEPS
    assert not turn.locked()


async def test_work_raises_its_error() -> None:
    with pytest.raises(KeyError):
        await run_with_pauses(failing(), asyncio.Lock())
    with pytest.raises(KeyError):
        await run_with_pauses(failing())


async def test_short_work_waits_for_nobody() -> None:
    def work() -> Generator[None, None, str]:
        yield
        return "done"

    turn = asyncio.Lock()
    async with turn:
        assert await run_with_pauses(work(), turn) == "done"


async def test_long_work_waits_for_its_turn() -> None:
    done = 0

    def work() -> Generator[None, None, None]:
        nonlocal done
        for _ in range(STEPS):
            end = time.perf_counter() + 2 * FIRST_STEP_SECONDS
            while time.perf_counter() < end:
                pass
            done += 1
            yield

    turn = asyncio.Lock()
    async with turn:
        working = asyncio.create_task(run_with_pauses(work(), turn))
        await asyncio.sleep(0.05)
        assert done == 1
    await working
    assert done == STEPS


async def test_pauses_are_as_long_as_the_work() -> None:
    started = time.perf_counter()
    await run_with_pauses(busy())
    assert time.perf_counter() - started >= STEPS * 2 * STEP_SECONDS * 2


async def test_short_steps_share_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    def work() -> Generator[None, None, None]:
        for _ in range(1_000):
            yield

    monkeypatch.setattr(pacing, "FIRST_STEP_SECONDS", 0.0)
    monkeypatch.setattr(asyncio, "sleep", counted)
    await run_with_pauses(work())
    assert 1 <= len(pauses) < 100


async def test_a_turn_ends_after_a_pause_as_long_as_its_work() -> None:
    turn = asyncio.Lock()
    start = time.perf_counter()
    for _ in range(STEPS):
        async with turn_with_pause(turn, 60):
            await asyncio.sleep(2 * STEP_SECONDS)
    worked_and_paused = 2 * STEP_SECONDS * (STEPS + STEPS - 1)
    assert time.perf_counter() - start >= worked_and_paused
    assert turn.locked()
    await turn.acquire()


async def test_a_turn_whose_work_failed_ends() -> None:
    turn = asyncio.Lock()
    with pytest.raises(KeyError):
        async with turn_with_pause(turn, 60):
            raise KeyError
    await turn.acquire()


async def test_a_turn_that_does_not_come() -> None:
    turn = asyncio.Lock()
    async with turn_with_pause(turn, 0):
        with pytest.raises(TimeoutError):
            async with turn_with_pause(turn, 0.01):
                raise AssertionError
    async with turn_with_pause(turn, 60):
        assert turn.locked()
