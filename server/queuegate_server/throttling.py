"""Limits load with a token bucket for rates, controlled delay for queues, and a byte budget."""

import math
from collections.abc import Callable
from typing import Final

ROUNDING: Final = 1e-6
"""The tolerance for early events, in seconds. Without it, rounding could make the token bucket
refuse an event after the time returned by `wait`."""

_BURST_SECONDS: Final = 0.1
_BURST_CALLS: Final = 32
"""An overload starts after this many consecutive late calls that span at least _BURST_SECONDS."""
_OVERLOAD_DIVISOR: Final = 8
_RECOVERY_SECONDS: Final = 1.0
"""An overload ends when no call has been late for this long."""
_PROBE_SECONDS: Final = 60.0
"""An overload is assumed to be over after this long, because immediate retries can prolong it. If
it is not over, less than 1 % of responses are late before it is detected again."""


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


MAX_WAIT_SECONDS: Final = 0.1
"""How long calls may normally queue. Longer waits that persist are an overload: then calls that
have waited longer than an eighth of this are refused. RFC 8289 takes a round trip of the network;
callers of a scheduler's hook notice no less than this, and a higher value only delays every
answer."""


class CoDel:
    """Controlled delay (RFC 8289) for calls, modified to remember an overload for longer.

    A queue filled by a burst drains without refusals. A standing queue would make every response
    late, so during an overload, calls that have waited longer than an eighth of the target are
    refused, and all others are handled promptly. An overload is remembered for longer than in CoDel
    because refused callers, unlike TCP senders, may not slow down.
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
        """Return whether to handle the call. Must be called for every call, in queue order.

        `waited` is how long the call has waited, and `now` is the monotonic time, both in seconds.
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
    """Counts bytes in use. Work admitted below the limit may push the count above it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0
        """The number of bytes in use."""

    @property
    def is_spent(self) -> bool:
        """Whether the limit has been reached."""
        return self.taken >= self._limit

    @property
    def excess(self) -> int:
        """The number of bytes above the limit; negative below it."""
        return self.taken - self._limit

    def take(self, size: int) -> None:
        """Count `size` more bytes as in use."""
        self.taken += size

    def give_back(self, size: int) -> None:
        """Count `size` bytes as no longer in use."""
        self.taken -= size
