"""A token bucket: so many events a second, and a few at once after a pause."""

import math
from collections.abc import Callable
from typing import Final

ROUNDING: Final = 1e-6
"""Seconds by which an event may come early, so that after the time that `wait` returns there is a
token."""


class TokenBucket:
    """A token bucket as one number: when it is full again (the generic cell rate algorithm).

    Args:
        rate: How many events a second may happen in the long run.
        burst: How many may happen at once after a pause.
        clock: A monotonic clock, in seconds.
    """

    __slots__ = ("_clock", "_full_at", "_interval", "_tolerance")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._interval = 1 / rate
        self._tolerance = (burst - 1) * self._interval
        self._clock = clock
        self._full_at = -math.inf

    def wait(self) -> float:
        """Return in how many seconds the next event may happen; 0 if now."""
        seconds = self._full_at - self._clock() - self._tolerance
        return seconds if seconds > ROUNDING else 0.0

    def acquire(self) -> bool:
        """Count an event if it may happen now, and return whether it may."""
        if self.wait() > 0:
            return False
        self.charge()
        return True

    def charge(self) -> None:
        """Count an event that has happened, whether or not there was a token for it."""
        self._full_at = max(self._full_at, self._clock()) + self._interval
