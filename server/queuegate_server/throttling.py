"""Load limits: a token bucket for rates, controlled delay for queues, and a budget for bytes."""

import math
from collections.abc import Callable
from typing import Final

ROUNDING: Final = 1e-6
"""Seconds by which an event may come early, so that a token is there once `wait` has elapsed."""

_BURST_SECONDS: Final = 0.1
_BURST_CALLS: Final = 32
"""Calls that exceed the target for this long, and this many in a row, mean an overload."""
_OVERLOAD_DIVISOR: Final = 8
_RECOVERY_SECONDS: Final = 1.0
"""An overload ends when no call has exceeded the target for this long."""
_PROBE_SECONDS: Final = 60.0
"""An overload is assumed to end after this long, because callers that retry at once can prolong it.
If it has not ended, less than 1 % of the answers are late until it is detected again."""


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
        """Return the seconds until the next event may happen; 0 if it may happen now."""
        seconds = self._full_at - self._clock() - self._tolerance
        return seconds if seconds > ROUNDING else 0.0

    def acquire(self) -> bool:
        """Count an event if it may happen now, and return whether it may."""
        if self.wait() > 0:
            return False
        self.charge()
        return True

    def charge(self, events: int = 1) -> None:
        """Count events that have happened, whether or not there were tokens for them."""
        self._full_at = max(self._full_at, self._clock()) + events * self._interval


class CoDel:
    """Controlled delay (RFC 8289) for calls, with a longer memory.

    All calls of a queue that a burst has filled are answered. A standing queue makes every answer
    late, so under overload the target shrinks to an eighth: calls that have waited for longer are
    refused, and the others are answered promptly. The memory is longer than CoDel's because
    refused callers, unlike dropped TCP segments, need not slow down.
    """

    def __init__(self, target: float) -> None:
        """Start without an overload. `target` is the acceptable waiting time in seconds."""
        self._target = target
        self._late = 0
        self._late_since = 0.0
        self._last_late = 0.0
        self._overloaded_since = 0.0
        self._is_overloaded = False

    def admit(self, waited: float, now: float) -> bool:
        """Return whether to answer a call. Must be called for each call, in the order of turns.

        Args:
            waited: How long the call has waited, in seconds.
            now: The time of a monotonic clock.
        """
        if self._is_overloaded and now - self._overloaded_since > _PROBE_SECONDS:
            self._is_overloaded = False
            self._late = 0
        if waited <= (self._target / _OVERLOAD_DIVISOR if self._is_overloaded else self._target):
            if not self._is_overloaded or now - self._last_late > _RECOVERY_SECONDS:
                self._is_overloaded = False
                self._late = 0
            return True
        if now - self._last_late > _RECOVERY_SECONDS:
            self._late = 0
        if not self._late:
            self._late_since = now
        self._late += 1
        self._last_late = now
        is_standing = self._late >= _BURST_CALLS and now - self._late_since >= _BURST_SECONDS
        if is_standing and not self._is_overloaded:
            self._is_overloaded = True
            self._overloaded_since = now
        return not self._is_overloaded


class ByteBudget:
    """Counts held bytes. Work that began before the budget was spent may exceed it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        """How many bytes are held."""

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.taken >= self._limit

    @property
    def excess(self) -> int:
        """By how many bytes the budget is exceeded; negative if it is not."""
        return self.taken - self._limit

    def take(self, size: int) -> None:
        """Count bytes."""
        self.taken += size

    def give_back(self, size: int) -> None:
        """Stop counting bytes."""
        self.taken -= size
