"""Single flight: concurrent callers with the same key share one task."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 1.0


class FlightCancelled(Exception):
    """The work was cancelled by `close`."""


@dataclass(slots=True, eq=False)
class Flight:
    """Work in progress for a key."""

    key: str
    started_at: float
    """When the work started, on the monotonic clock of its `SingleFlight`."""
    _siblings: "list[Flight]"
    is_outdated: bool = False
    """Whether new callers must not use the result."""

    def supersede(self) -> None:
        """Mark earlier work for the key as outdated, so that new callers do not join it."""
        for sibling in self._siblings[: self._siblings.index(self)]:
            sibling.is_outdated = True


Work = Callable[[Flight], Coroutine[Any, Any, T]]


class SingleFlight(Generic[T]):
    """Runs `work(flight)` in a separate task that callers with the same key can join.

    Cancelling a caller does not affect the work or other callers. The work must have a timeout.
    """

    def __init__(
        self,
        work: Work[T],
        clock: Callable[[], float] = time.monotonic,
        *,
        has_tasks: bool = True,
    ) -> None:
        """Create a single flight with no work in progress.

        Args:
            work: The default work for a key.
            clock: A monotonic clock, in seconds.
            has_tasks: Whether the work may suspend. If not, each caller runs it directly, without a
                task.
        """
        self._work: Work[T] | None = work
        """Set to None by `close` to break the reference cycle with the work's owner."""
        self._clock = clock
        self._has_tasks = has_tasks
        self._flights: dict[str, list[Flight]] = {}
        """The flights by key, in start order."""
        self._tasks: dict[Flight, asyncio.Task[T]] = {}

    def __contains__(self, key: str) -> bool:
        """Return whether a caller with this key would join work in progress."""
        return self._joinable(key) is not None

    def start(self, key: str, work: Work[T] | None = None) -> asyncio.Task[T]:
        """Start `work`, or the default work, for callers to join. Raises FlightCancelled."""
        flight, running = self._begin(key, work)
        task = asyncio.get_running_loop().create_task(running)
        self._tasks[flight] = task
        task.add_done_callback(lambda task: self._finished(flight, task))
        return task

    async def join(self, key: str, *, alone: Work[T] | None = None, max_age: float = math.inf) -> T:
        """Return the result of the key's work. Starts the work if none is in progress.

        Args:
            key: The key.
            alone: Work to start instead of joining work in progress.
            max_age: The age, in seconds, at which work in progress can no longer be joined.

        Raises:
            FlightCancelled: The work was cancelled by `close`.
        """
        if not self._has_tasks:
            flight, running = self._begin(key, alone)
            try:
                return await running
            finally:
                self._end(flight)
        joined = None if alone else self._joinable(key, max_age)
        task = self.start(key, alone) if joined is None else self._tasks[joined]
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled() and not is_being_cancelled():
                raise FlightCancelled from None
            raise

    def outdate(self, key: str) -> None:
        """Make later callers start new work for the key. The old work still completes."""
        for flight in self._flights.get(key, ()):
            flight.is_outdated = True

    def outdate_all(self) -> None:
        """Make later callers start new work for every key."""
        for key in self._flights:
            self.outdate(key)

    async def close(self) -> None:
        """Cancel all work, and wait at most a second for it to finish."""
        self._work = None
        tasks = set(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)

    def _joinable(self, key: str, max_age: float = math.inf) -> Flight | None:
        """Return the key's latest work if callers may join it."""
        flights = self._flights.get(key)
        if not flights:
            return None
        last = flights[-1]
        is_old = self._clock() >= last.started_at + max_age
        return None if last.is_outdated or is_old else last

    def _begin(self, key: str, work: Work[T] | None) -> tuple[Flight, Coroutine[Any, Any, T]]:
        if self._work is None:
            raise FlightCancelled
        siblings = self._flights.setdefault(key, [])
        flight = Flight(key, self._clock(), siblings)
        siblings.append(flight)
        return flight, (work or self._work)(flight)

    def _end(self, flight: Flight) -> None:
        flights = self._flights[flight.key]
        flights.remove(flight)
        if not flights:
            del self._flights[flight.key]

    def _finished(self, flight: Flight, task: asyncio.Task[T]) -> None:
        del self._tasks[flight]
        self._end(flight)
        if not task.cancelled():
            task.exception()  # mark as retrieved, because all callers may be gone


def is_being_cancelled() -> bool:
    """Return whether the current task, rather than something that it waits for, is cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
