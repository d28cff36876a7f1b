"""Limits a rate of events with a token bucket."""

import math
from collections.abc import Callable
from typing import Final

ROUNDING: Final = 1e-6
"""The tolerance for early events, in seconds. Without it, rounding could make the token bucket
refuse an event after the time returned by `wait`."""


class TokenBucket:
    """A token bucket, stored as the time when it will be full (the generic cell rate algorithm).

    Args:
        rate: The sustained rate, in events per second.
        burst: The maximum number of events at once after a pause.
        clock: A monotonic clock, in seconds.
    """

    __slots__ = ("_clock", "_full_at", "_interval", "_tolerance")

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._interval = 1 / rate
        self._tolerance = (burst - 1) * self._interval
        self._clock = clock
        self._full_at = -math.inf

    def wait(self) -> float:
        """Return the seconds until the next event is allowed; 0 if it is allowed now."""
        seconds = self._full_at - self._clock() - self._tolerance
        return seconds if seconds > ROUNDING else 0.0

    def acquire(self) -> bool:
        """Take a token if an event is allowed now, and return whether it is."""
        if self.wait() > 0:
            return False
        self.charge()
        return True

    def charge(self) -> None:
        """Take a token for a past event, even if none was available."""
        self._full_at = max(self._full_at, self._clock()) + self._interval
