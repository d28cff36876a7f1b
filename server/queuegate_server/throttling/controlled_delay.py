"""Limits how long calls wait in a queue."""

from typing import Final

MAX_WAIT_SECONDS: Final = 0.1
"""The acceptable waiting time of calls, in seconds: the target of `CoDel`. RFC 8289 derives its
target from a round trip of the network. Here it is the shortest delay that callers of a scheduler's
hook notice; a longer one would only delay every answer."""
_STANDING_SECONDS: Final = 0.1
_STANDING_CALLS: Final = 32
"""A queue is standing after this many consecutive late calls that span at least
_STANDING_SECONDS. An overload then starts."""
_OVERLOAD_DIVISOR: Final = 8
"""The part of the target that calls may wait during an overload."""
_RECOVERY_SECONDS: Final = 1.0
"""An overload ends when no call has been late for this long."""
_PROBE_SECONDS: Final = 60.0
"""An overload is assumed to be over after this long, because immediate retries can prolong it. If
it is not over, less than 1% of responses are late before it is detected again."""


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
        is_standing = self._late >= _STANDING_CALLS and now - self._late_since >= _STANDING_SECONDS
        if is_standing and not self._is_overloaded:
            self._is_overloaded = True
            self._overloaded_since = now
        return not self._is_overloaded
