"""Reports changes of a source, and repeats each report.

A report is repeated because the lookup that follows it may ask another server, or a cache, that
lags behind. Positions are reported only after the repetition, so that the next follower repeats
what this one could not.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from queuegate_server.identity.resolver import ChangeSink

MAX_REPEATED: Final = 10_000
"""The maximum number of users to invalidate again. If there are more, all users are."""


class _Repetition(NamedTuple):
    """Users to invalidate again."""

    due_at: float
    users: Collection[str] | None
    """None for all users."""
    position: bytes


class RepeatedReports:
    """Reports to a sink, now and some time later.

    Args:
        sink: Receives the reports.
        repeat_after: The seconds between a report and its repetition. 0: reports are not repeated.
        clock: A monotonic clock, in seconds.
    """

    def __init__(
        self, sink: ChangeSink, repeat_after: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sink = sink
        self._repeat_after = repeat_after
        self._clock = clock
        self._repetitions: deque[_Repetition] = deque()

    @property
    def due_at(self) -> float | None:
        """When the next repetition is due, if there is one."""
        return self._repetitions[0].due_at if self._repetitions else None

    def report(self, users: Collection[str] | None, position: bytes) -> None:
        """Report users whose groups may have changed; None for all users.

        `position` is the newest one that is covered.
        """
        self._invalidate(users)
        is_final = not self._repeat_after or (users is not None and not users)
        if is_final and not self._repetitions:
            self._sink.reached(position)
            return
        self._sink.reached()
        held = sum(len(each.users or ()) for each in self._repetitions)
        if users is not None and held + len(users) > MAX_REPEATED:
            users = None
        due_at = self._clock() + self._repeat_after
        self._repetitions.append(_Repetition(due_at, users, position))

    def repeat(self) -> None:
        """Repeat the reports that are due."""
        now = self._clock()
        while self._repetitions and self._repetitions[0].due_at <= now:
            _, users, position = self._repetitions.popleft()
            self._invalidate(users)
            self._sink.reached(position)

    def _invalidate(self, users: Collection[str] | None) -> None:
        if users is None:
            self._sink.invalidate_all()
        elif users:
            self._sink.invalidate(users)
