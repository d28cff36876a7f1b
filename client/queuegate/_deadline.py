"""One time limit over all requests that a call needs."""

import time
from collections.abc import Callable


class Deadline:
    """Counts down from now on."""

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the limit and a monotonic clock, both in seconds."""
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Return the seconds that are left, never less than 0."""
        return max(0.0, self._end - self._clock())
