"""How fast known users are looked up again: as fast as the event loop has time for it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOWEST: Final = 100.0
"""Look-ups a second that there is always time for: a few hundredths of a core."""
HIGHEST: Final = 1_000.0
"""Look-ups a second for which an event loop that has nothing else to do is not kept busy."""
BURST: Final = 8
"""How many may begin at once after a pause."""
_PAUSE: Final = 0.01
"""Seconds whose look-ups may begin at once when the rate is higher."""
BUSY: Final = 0.7
"""The share of time that the loop is occupied from which look-ups make others wait."""
WINDOW: Final = 0.1
"""Seconds over which that share is taken."""
_SCHEDULED: Final = Path("/proc/thread-self/schedstat")


def occupied_seconds() -> float:
    """Return for how long the calling thread has had something to do: it ran, or waited for a
    processor that others had or a quota kept from it. Elsewhere than on Linux, how long it ran.
    """
    try:
        ran, waited, _ = map(int, _SCHEDULED.read_bytes().split())
    except (OSError, ValueError):
        return time.thread_time()
    return (ran + waited) / 1e9


class Pace:
    """A token bucket that fills faster while the loop is idle, and slower while it is busy.

    Used from the thread of the event loop.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        occupied: Callable[[], float] = occupied_seconds,
    ) -> None:
        """Take a monotonic clock, and how long the calling thread has been occupied."""
        self._clock = clock
        self._occupied = occupied
        self.rate = LOWEST
        """Look-ups a second that the loop has time for."""
        self._budget = float(BURST)
        self._filled_at = clock()
        self._window: tuple[float, float] | None = None

    def take(self, needed: float) -> bool:
        """Say whether a look-up may begin now, and count it. `needed` is a rate a second that
        is allowed whatever the load.
        """
        now = self._clock()
        self._watch(now)
        rate = max(self.rate, needed)
        most = max(BURST, rate * _PAUSE)
        self._budget = min(most, self._budget + rate * (now - self._filled_at))
        self._filled_at = now
        if self._budget < 1:
            return False
        self._budget -= 1
        return True

    def _watch(self, now: float) -> None:
        if self._window is None:
            self._window = now, self._occupied()
            return
        began, occupied_before = self._window
        if now - began < WINDOW:
            return
        occupied = self._occupied()
        self._window = now, occupied
        if occupied - occupied_before > BUSY * (now - began):
            self.rate = max(LOWEST, self.rate / 2)
        else:
            self.rate = min(HIGHEST, self.rate * 1.5)
