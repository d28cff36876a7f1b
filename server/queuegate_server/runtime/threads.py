"""Threads for calls that may hang for ever, without holding up anything else."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class StillRunning(Exception):
    """An earlier call for the same key was given up and has not come back."""


class AllThreadsHang(Exception):
    """Every thread is held by a call that was given up and has not come back."""


class _Job(NamedTuple):
    future: Future[Any]
    function: Callable[[], Any]


class AbandonableThreadPool:
    """At most `limit` threads, started as they are needed. Used from one event loop.

    They are daemons: unlike those of a ThreadPoolExecutor, they are not waited for when
    the process ends. A call whose waiter is cancelled is skipped if it has not begun; if it
    has, its thread is lost until it comes back.
    """

    def __init__(self, limit: int, name: str) -> None:
        """Start nothing yet. The name is the prefix of the threads' names."""
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = 0
        self._unfinished = 0
        self._hung: set[str] = set()
        self._closed = False

    @property
    def hung(self) -> int:
        """How many threads are held by calls that were given up."""
        return len(self._hung)

    async def run(self, key: str, function: Callable[[], T]) -> T:
        """Call the function in a thread and return what it returns, or raise what it raises.

        Raises StillRunning or AllThreadsHang at once instead of losing another thread to
        the same key, and of waiting for threads that may never come back; RuntimeError
        after `close`.
        """
        if self._closed:
            raise RuntimeError("the threads are closed")
        if key in self._hung:
            raise StillRunning
        if len(self._hung) >= self._limit:
            raise AllThreadsHang
        future: Future[T] = Future()
        self._unfinished += 1
        self._jobs.put(_Job(future, function))
        if self._unfinished + len(self._hung) > self._started < self._limit:
            self._start_thread()
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._note_hung(key, future)
            raise
        finally:
            self._unfinished -= 1

    def close(self) -> None:
        """Let idle threads end; those that hang end with the process."""
        self._closed = True
        for _ in range(self._started):
            self._jobs.put(None)

    def _note_hung(self, key: str, future: Future[T]) -> None:
        loop = asyncio.get_running_loop()
        self._hung.add(key)

        def came_back(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # The loop has been closed.
                loop.call_soon_threadsafe(self._hung.discard, key)

        future.add_done_callback(came_back)

    def _start_thread(self) -> None:
        self._started += 1
        name = f"{self._name}-{self._started}"
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if job.future.set_running_or_notify_cancel():
            try:
                result = job.function()
            except BaseException as error:
                job.future.set_exception(error)
            else:
                job.future.set_result(result)
        del job
