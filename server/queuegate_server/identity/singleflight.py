"""Single flight: one lookup of a user at a time, however many callers wait for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 1.0


class FlightCancelled(Exception):
    """The work was cancelled by `close`."""


class SingleFlight(Generic[T]):
    """Runs `work(user)` in a task of its own that callers join.

    A caller that is cancelled neither stops the work nor disturbs the others. The work
    bounds its own time: no caller's deadline is also the deadline of the others.
    """

    def __init__(self, work: Callable[[str], Coroutine[Any, Any, T]]) -> None:
        self._work: Callable[[str], Coroutine[Any, Any, T]] | None = work
        """None once closed: otherwise this object and the owner of the work would be a cycle."""
        self._joinable: dict[str, asyncio.Task[T]] = {}
        self._all: set[asyncio.Task[T]] = set()

    def __contains__(self, user: str) -> bool:
        """Return whether work is under way that a caller would join."""
        return user in self._joinable

    def start(
        self, user: str, work: Callable[[str], Coroutine[Any, Any, T]] | None = None
    ) -> asyncio.Task[T]:
        """Start new work for the user, which callers join from now on.

        Args:
            user: The user.
            work: What to run instead of the usual work.

        Raises:
            FlightCancelled: After `close`.
        """
        if self._work is None:
            raise FlightCancelled
        task = asyncio.get_running_loop().create_task((work or self._work)(user))
        self._joinable[user] = task
        self._all.add(task)
        task.add_done_callback(lambda task: self._finished(user, task))
        return task

    async def join(
        self, user: str, *, alone: Callable[[str], Coroutine[Any, Any, T]] | None = None
    ) -> T:
        """Wait for the work for the user, which is started if there is none.

        Args:
            user: The user.
            alone: Start this work in any case.

        Raises:
            FlightCancelled: The work was cancelled by `close`.
        """
        task = None if alone else self._joinable.get(user)
        if task is None:
            task = self.start(user, alone)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not _is_being_cancelled():
                raise FlightCancelled from None
            raise

    def detach(self, user: str) -> None:
        """Make later callers start new work for the user; the old work goes on."""
        self._joinable.pop(user, None)

    def detach_all(self) -> None:
        """Make later callers start new work for every user."""
        self._joinable.clear()

    async def close(self) -> None:
        """Cancel all work, and wait for its end for a second at most."""
        self._work = None
        tasks = set(self._all)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)

    def _finished(self, user: str, task: asyncio.Task[T]) -> None:
        self._all.discard(task)
        if self._joinable.get(user) is task:
            del self._joinable[user]
        if not task.cancelled():
            task.exception()  # retrieved here, as perhaps nobody waits any more


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
