"""Look-ups of users whose groups are known: at once while there is time, else in turn.

After an outage the groups of everybody may have expired. If all users were looked up when
they are asked for, checks would wait for look-ups and these for each other. So whoever finds
no time for a look-up is answered with the groups that are known, and stands in a line.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Protocol

from queuegate_server.identity.pace import Pace

_TICK: Final = 0.005
"""Seconds between two looks at the line."""
_AT_ONCE: Final = 100
"""The most look-ups that begin at one of them."""
_LONGEST: Final = 100_000
"""Who does not fit in the line gets there when asked for again."""


class Timer(Protocol):
    """What has been put off."""

    def cancel(self) -> None:
        """Do not do it."""


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class RefreshQueue:
    """Who is to be looked up again, in the order of asking. Used from one event loop."""

    def __init__(
        self,
        start: Callable[[str], asyncio.Task[Any] | None],
        most: Callable[[], int],
        within: Callable[[], float],
        *,
        clock: Callable[[], float] = time.monotonic,
        pace: Pace | None = None,
        later: Callable[[float, Callable[[], None]], Timer] = _later,
    ) -> None:
        """Take what starts the look-up of a user, if she still needs one; how many may run at
        this moment, 0 while the source is left alone; and within how many seconds everybody
        in the line is to be looked up, however busy the loop is.
        """
        self._start = start
        self._most = most
        self._within = within
        self._pace = pace or Pace(clock)
        self._later = later
        self._line: OrderedDict[str, None] = OrderedDict()
        self._longest = 0
        """How long the line has been since it was empty."""
        self._running = 0
        self._timer: Timer | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return how many users wait for their turn."""
        return len(self._line)

    def ask(self, user: str) -> bool:
        """Start the look-up of a user now, or see to it that her turn comes; say whether it
        was started. While the source is left alone nothing happens.
        """
        if user in self._line or self._closed or not (most := self._most()):
            return False
        if not self._line and self._running < most and self._pace.take(0):
            self._begin(user)
            return True
        if len(self._line) < _LONGEST:
            self._line[user] = None
            self._longest = max(self._longest, len(self._line))
            if self._timer is None:
                self._wait()
        return False

    def clear(self) -> None:
        """Forget who waits."""
        self._line.clear()

    def close(self) -> None:
        """Start nothing from now on."""
        self._closed = True
        self._line.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = self._later(_TICK, self._take_turns)

    def _take_turns(self) -> None:
        self._timer = None
        most = self._most()
        if not most:
            self._line.clear()
        for _ in range(_AT_ONCE):
            if not self._line:
                self._longest = 0
                return
            if self._running >= most or not self._pace.take(self._longest / self._within()):
                break
            user, _ = self._line.popitem(last=False)
            self._begin(user)
        self._wait()

    def _begin(self, user: str) -> None:
        task = self._start(user)
        if task is not None:
            self._running += 1
            task.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._running -= 1
