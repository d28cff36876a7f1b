"""Work requested by signals: it runs once more for all signals that arrive while it runs."""

import asyncio
import contextlib

import pytest

from queuegate_server.runtime.event_loop import run_on


async def test_however_often_it_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    asked, under_way, may_end = asyncio.Event(), asyncio.Semaphore(0), asyncio.Semaphore(0)

    async def work() -> None:
        under_way.release()
        await may_end.acquire()
        raise ValueError("a fault does not end it")

    task = asyncio.create_task(run_on(asked, work))
    asked.set()
    await under_way.acquire()
    for _ in range(100):
        asked.set()
        await asyncio.sleep(0)
    may_end.release()
    await under_way.acquire()  # what came meanwhile is worked for
    may_end.release()
    for _ in range(10):
        await asyncio.sleep(0)
    assert under_way.locked()  # and once only
    assert [record.message for record in caplog.records] == ["unexpected error"] * 2
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
