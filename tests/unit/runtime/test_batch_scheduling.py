"""Which class of the kernel's scheduler our threads are in."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from queuegate_server.formats.collector import paused_collector
from queuegate_server.runtime import batch_scheduling
from tests.support.fakes.loop import until


class Processor:
    """Counts processor time of a process that is busy all the time, or never."""

    def __init__(self) -> None:
        self.is_busy = True

    def spent(self) -> float:
        return time.monotonic() if self.is_busy else 0.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scheduling, "_SECONDS", 0.001)


@pytest.fixture
def other_thread() -> Iterator[int]:
    """Yield the number of another thread of this process."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread.native_id is not None
    yield thread.native_id
    end.set()
    thread.join()


@asynccontextmanager
async def _watched() -> AsyncIterator[Processor]:
    """Watch a processor that is busy, and let it be calm in the end."""
    processor = Processor()
    task = asyncio.create_task(batch_scheduling.batch_scheduling(processor.spent))
    try:
        yield processor
        processor.is_busy = False
        await until(lambda: os.sched_getscheduler(0) == os.SCHED_OTHER)
    finally:
        task.cancel()


async def test_all_threads_are_of_the_batch_class_while_the_process_is_busy(
    other_thread: int,
) -> None:
    threads = (threading.get_native_id(), other_thread)

    def classes() -> set[int]:
        return {os.sched_getscheduler(thread) for thread in threads}

    async with _watched() as processor:
        await until(lambda: classes() == {os.SCHED_BATCH})
        processor.is_busy = False
        await until(lambda: classes() == {os.SCHED_OTHER})
        processor.is_busy = True
        await until(lambda: classes() == {os.SCHED_BATCH})


async def test_a_thread_that_loads_a_policy_can_be_interrupted() -> None:
    async with _watched():
        await until(lambda: os.sched_getscheduler(0) == os.SCHED_BATCH)
        with paused_collector():
            await until(lambda: os.sched_getscheduler(0) == os.SCHED_OTHER)


async def test_a_class_that_somebody_has_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda _pid, policy, _param: chosen.append(policy)
    )
    # Before the start, and later.
    for classes in ([os.SCHED_RR], [os.SCHED_OTHER, os.SCHED_OTHER, os.SCHED_RR]):
        monkeypatch.setattr(os, "sched_getscheduler", lambda _pid, left=classes: left.pop(0))
        idle = Processor()
        idle.is_busy = False
        await asyncio.wait_for(batch_scheduling.batch_scheduling(idle.spent), timeout=60)
        assert not classes
    assert not chosen


async def test_in_the_end_the_class_is_as_before() -> None:
    task = asyncio.create_task(batch_scheduling.batch_scheduling(Processor().spent))
    await until(lambda: os.sched_getscheduler(0) == os.SCHED_BATCH)
    task.cancel()
    await until(task.done)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


async def test_where_it_is_forbidden_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(_pid: int, _policy: int, _param: os.sched_param) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    await asyncio.wait_for(batch_scheduling.batch_scheduling(Processor().spent), timeout=60)
