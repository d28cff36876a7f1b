"""Threads for calls that may hang: what a hung one costs, and what it must not."""

import asyncio
import errno
import threading
from collections.abc import Iterator

import pytest

from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning, ThreadsExhausted
from tests.support.fakes.loop import wait_until

pytestmark = pytest.mark.usefixtures("no_task_left")


class _Hanging:
    """Calls that hang until the test lets them go."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.begun = 0

    def __call__(self) -> str:
        self.begun += 1
        self.release.wait()
        return "late"


@pytest.fixture
def hanging() -> Iterator[_Hanging]:
    calls = _Hanging()
    yield calls
    calls.release.set()


async def given_up(threads: AbandonableThreadPool, key: str, calls: _Hanging) -> None:
    """Start a call, wait until it has begun, and give it up."""
    begun = calls.begun
    task = asyncio.create_task(threads.run(key, calls))
    await wait_until(lambda: calls.begun > begun)
    task.cancel()
    await asyncio.wait([task])


async def all_back(threads: AbandonableThreadPool) -> None:
    await wait_until(lambda: not threads._hung)


async def test_results_and_exceptions_come_back() -> None:
    threads = AbandonableThreadPool(2, "test")
    assert await threads.run("a", threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 // 0)
    assert await threads.run("a", lambda: 5) == 5
    threads.close()


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


async def test_threads_start_as_needed_up_to_the_limit() -> None:
    threads = AbandonableThreadPool(3, "count")
    for _ in range(5):
        await threads.run("a", int)
    assert len(running("count")) == 1
    together = threading.Barrier(3)
    await asyncio.gather(*(threads.run(key, together.wait) for key in "abc"))
    await asyncio.gather(*(threads.run(f"user{number}", int) for number in range(50)))
    assert len(running("count")) == 3
    assert all(thread.daemon for thread in running("count"))
    threads.close()


async def test_a_hung_call_does_not_hold_up_others(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(2, "test")
    await given_up(threads, "sue", hanging)
    assert len(threads._hung) == 1
    for _ in range(20):
        assert await threads.run("bob", lambda: 7) == 7
    hanging.release.set()
    await all_back(threads)
    threads.close()


async def test_a_key_loses_one_thread_at_most(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(2, "test")
    await given_up(threads, "sue", hanging)
    for _ in range(5):
        with pytest.raises(StillRunning):
            await threads.run("sue", hanging)
    assert (len(threads._hung), hanging.begun) == (1, 1)
    hanging.release.set()
    await all_back(threads)
    assert await threads.run("sue", lambda: 7) == 7
    threads.close()


async def test_when_all_hang_callers_do_not_wait(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(2, "test")
    for key in ("a", "b"):
        await given_up(threads, key, hanging)
    with pytest.raises(ThreadsExhausted):
        await threads.run("c", int)
    hanging.release.set()
    await all_back(threads)
    assert await threads.run("c", int) == 0
    threads.close()


async def test_all_threads_may_hang_for_one_key(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(2, "test")
    together = [asyncio.create_task(threads.run("sue", hanging)) for _ in range(2)]
    await wait_until(lambda: hanging.begun == 2)
    for task in together:
        task.cancel()
    await asyncio.wait(together)
    with pytest.raises(ThreadsExhausted):
        await asyncio.wait_for(threads.run("bob", int), 60)
    hanging.release.set()
    await all_back(threads)
    assert await threads.run("bob", int) == 0
    threads.close()


async def test_a_call_given_up_before_it_began_is_skipped(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(1, "test")
    first = asyncio.create_task(threads.run("a", hanging))
    called: list[str] = []
    second = asyncio.create_task(threads.run("b", lambda: called.append("b")))
    third = asyncio.create_task(threads.run("c", lambda: called.append("c")))
    await wait_until(lambda: hanging.begun == 1)
    second.cancel()
    await asyncio.wait([second])
    assert not threads._hung
    hanging.release.set()
    assert await first == "late"
    await third
    assert called == ["c"]
    threads.close()


async def test_closed_threads_take_no_calls(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(2, "closing")
    await threads.run("a", int)
    await given_up(threads, "b", hanging)
    threads.close()
    with pytest.raises(RuntimeError, match="closed"):
        await threads.run("c", int)
    hanging.release.set()
    await all_back(threads)
    await wait_until(lambda: not running("closing"))


def test_a_call_that_comes_back_after_the_loop_is_closed_is_harmless(hanging: _Hanging) -> None:
    threads = AbandonableThreadPool(1, "late")
    asyncio.run(given_up(threads, "a", hanging))
    hanging.release.set()
    threads.close()
    [thread] = running("late")
    thread.join(60)
    assert not thread.is_alive()


async def test_a_thread_that_cannot_be_started_is_an_error_of_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = AbandonableThreadPool(1, "test")

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(OSError, match="can't start new thread") as failed:
            await threads.run(None, lambda: "never called")
    assert failed.value.errno == errno.EAGAIN
    async with asyncio.timeout(60):
        assert await threads.run(None, lambda: "called") == "called"
    threads.close()
