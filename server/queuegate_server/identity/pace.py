"""How fast known users are looked up again: as fast as the event loop has time for it."""

import time
from collections.abc import Callable
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
"""The share of its time that the loop works from which look-ups make others wait."""
WINDOW: Final = 0.1
"""Seconds over which that share is taken."""


class Pace:
    """A token bucket that fills faster while the loop is idle, and slower while it is busy.

    Used from the thread of the event loop.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.thread_time,
    ) -> None:
        """Take a monotonic clock, and for how many seconds the calling thread has worked."""
        self._clock = clock
        self._worked = worked
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

    def slow_down(self) -> None:
        """Note that the loop came late to what was due."""
        self.rate = max(LOWEST, self.rate / 2)
        self._window = None

    def _watch(self, now: float) -> None:
        if self._window is None:
            self._window = now, self._worked()
            return
        began, worked_before = self._window
        if now - began < WINDOW:
            return
        worked = self._worked()
        self._window = now, worked
        if worked - worked_before > BUSY * (now - began):
            self.rate = max(LOWEST, self.rate / 2)
        else:
            self.rate = min(HIGHEST, self.rate * 1.5)
