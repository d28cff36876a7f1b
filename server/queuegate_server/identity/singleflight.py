"""One piece of work per user, however many wait for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_CLOSE_SECONDS: Final = 1.0


class FlightCancelled(Exception):
    """The work was given up because of `close`."""


class SingleFlight(Generic[T]):
    """Runs `work(user)` in a task that belongs to nobody who waits for it.

    A caller who is cancelled neither stops the work nor disturbs the others. The work
    bounds its own time: nobody's deadline is also the deadline of the others. Used from
    one event loop.
    """

    def __init__(self, work: Callable[[str], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._joinable: dict[str, asyncio.Task[T]] = {}
        self._all: set[asyncio.Task[T]] = set()
        self._closed = False

    def __contains__(self, user: str) -> bool:
        """Say whether there is work under way that a caller would join."""
        return user in self._joinable

    def __len__(self) -> int:
        """Return how much work is under way."""
        return len(self._all)

    def start(self, user: str) -> asyncio.Task[T]:
        """Start new work for the user, which callers join from now on.

        Raises FlightCancelled after `close`.
        """
        if self._closed:
            raise FlightCancelled
        task = asyncio.get_running_loop().create_task(self._work(user))
        self._joinable[user] = task
        self._all.add(task)
        task.add_done_callback(lambda task: self._finished(user, task))
        return task

    async def join(self, user: str, *, alone: bool = False) -> T:
        """Wait for the work for the user, which is started if there is none.

        With `alone`, work that started before is not joined: new work is started.
        Raises FlightCancelled if the work ends by `close`, and what the work raises.
        """
        task = None if alone else self._joinable.get(user)
        if task is None:
            task = self.start(user)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not _is_being_cancelled():
                raise FlightCancelled from None
            raise

    def detach(self, user: str) -> None:
        """Let callers from now on start new work for the user; the old goes on."""
        self._joinable.pop(user, None)

    def detach_all(self) -> None:
        """Let callers from now on start new work for every user."""
        self._joinable.clear()

    async def close(self) -> None:
        """Cancel all work and wait until it has ended, for a second at most."""
        self._closed = True
        tasks = set(self._all)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    def _finished(self, user: str, task: asyncio.Task[T]) -> None:
        self._all.discard(task)
        if self._joinable.get(user) is task:
            del self._joinable[user]
        if not task.cancelled():
            task.exception()  # Retrieved here: perhaps nobody waits any more.


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
