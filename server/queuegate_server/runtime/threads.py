"""Threads for calls that may hang forever."""

import asyncio
import contextlib
import errno
import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Future[Any], Callable[[], Any]]


class StillRunning(Exception):
    """An earlier call with the same key was abandoned and has not returned."""


class ThreadsExhausted(Exception):
    """Every thread is occupied by an abandoned call that has not returned."""


class AbandonableThreadPool:
    """A pool of up to `limit` daemon threads. They start on demand and do not delay process exit.

    If a caller is cancelled before its call has started, the call is skipped. If it is cancelled
    later, the call is abandoned and occupies its thread until it returns.
    """

    def __init__(self, limit: int, name: str) -> None:
        """Create a pool without starting threads. `name` is the prefix of the threads' names."""
        self._limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = 0
        self._unfinished = 0
        self._hung: list[str | None] = []
        """The key of each thread occupied by an abandoned call."""
        self._closed = False

    async def run(self, key: str | None, function: Callable[[], T]) -> T:
        """Call a function in a thread, and return its result or raise its exception.

        Args:
            key: Identifies the call, which is refused while an abandoned call with the same key is
                running. If None, the call is never refused for this reason.
            function: The function, called without arguments.

        Raises:
            StillRunning: An abandoned call with the same key has not returned.
            ThreadsExhausted: All threads are occupied by abandoned calls.
            OSError: No thread can be started.
            RuntimeError: The pool is closed.
        """
        if self._closed:
            raise RuntimeError("the thread pool is closed")
        if key is not None and key in self._hung:
            raise StillRunning
        if len(self._hung) >= self._limit:
            raise ThreadsExhausted
        if self._unfinished + len(self._hung) >= self._started < self._limit:
            self._start_thread()
        future: Future[T] = Future()
        self._unfinished += 1
        self._jobs.put((future, function))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():
                self._note_hung(key, future)
            raise
        finally:
            self._unfinished -= 1

    def close(self) -> None:
        """Stop each thread when it becomes idle. Hung threads remain until the process exits."""
        self._closed = True
        for _ in range(self._started):
            self._jobs.put(None)

    def _note_hung(self, key: str | None, future: Future[T]) -> None:
        loop = asyncio.get_running_loop()
        self._hung.append(key)

        def returned(_: Future[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._hung.remove, key)

        future.add_done_callback(returned)

    def _start_thread(self) -> None:
        name = f"{self._name}-{self._started + 1}"
        thread = threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        self._started += 1


async def look_up_host(threads: AbandonableThreadPool, host: str, port: int) -> tuple[str, ...]:
    """Return a host's IP addresses.

    Raises:
        OSError: The host has no address, or the name service failed.
        StillRunning: An abandoned lookup of the host has not returned.
        ThreadsExhausted: All threads are occupied by abandoned lookups.
    """
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return (host,)
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    addresses = await threads.run(host, lookup)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in addresses))


def _work(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        future, function = job
        if future.set_running_or_notify_cancel():
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result  # may be large, and the next job may be far off
        del job, future, function
