"""Timing of code in this process.

Measures this thread's processor time, not wall-clock time, so other work on the machine matters
less.
"""

import gc
import time
from collections.abc import Awaitable, Callable


class Stopwatch:
    """Adds up the time and the amount of work."""

    def __init__(self) -> None:
        """Start at zero."""
        self._nanoseconds = 0
        self._done = 0

    def run(self, work: Callable[[], int]) -> None:
        """Time one piece of work, which returns the number of items done."""
        start = time.thread_time_ns()
        self._done += work()
        self._nanoseconds += time.thread_time_ns() - start

    async def wait(self, work: Awaitable[int]) -> None:
        """Time one piece of work that runs in this thread's event loop."""
        start = time.thread_time_ns()
        self._done += await work
        self._nanoseconds += time.thread_time_ns() - start

    @property
    def seconds(self) -> float:
        """The total time."""
        return self._nanoseconds / 1e9

    @property
    def microseconds_each(self) -> float:
        """The time per item."""
        return self._nanoseconds / 1e3 / self._done


def microseconds_each(prepare: Callable[[], Callable[[], int]], seconds: float) -> float:
    """Prepare and run work for some time, and return the microseconds per item.

    Preparing is not timed.
    """
    gc.collect()
    watch = Stopwatch()
    while watch.seconds < seconds:
        watch.run(prepare())
    return watch.microseconds_each


async def microseconds_each_awaited(prepare: Callable[[], Awaitable[int]], seconds: float) -> float:
    """Do the same for work awaited on the running event loop."""
    gc.collect()
    watch = Stopwatch()
    while watch.seconds < seconds:
        await watch.wait(prepare())
    return watch.microseconds_each
