"""Reports changes in a source, and repeats each report.

A report is repeated because the lookup that follows it may query another server, or a cache, that
lags behind. Positions are reported only after the repetition, so that the next follower repeats
what this follower could not.
"""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.identity.resolver import ChangeSink

MAX_REPEATED: Final = 10_000
"""The maximum number of users to invalidate again. If there are more, all users are invalidated
again.
"""

_SHARE: Final = 1 / 8
"""Reports within this share of `repeat_after` are repeated together, so that a storm of reports
does not add up to as many repetitions."""


@dataclass(slots=True)
class _Repetition:
    """Users to invalidate again."""

    ends_at: float
    """When this batch stops taking more users."""
    due_at: float
    users: set[str] | None = field(default_factory=set)
    """The users; None for all users."""
    position: bytes = b""


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

        `position` is the newest position that the report covers.
        """
        self._invalidate(users)
        if self._repeat_after and (users is None or users):
            self._repeat_later(users)
        if self._repetitions:
            self._repetitions[-1].position = position
            self._sink.reached()
        else:
            self._sink.reached(position)

    def _repeat_later(self, users: Collection[str] | None) -> None:
        now, repetitions = self._clock(), self._repetitions
        if not repetitions or now >= repetitions[-1].ends_at:
            repetitions.append(_Repetition(now + self._repeat_after * _SHARE, now))
        last = repetitions[-1]
        last.due_at = now + self._repeat_after
        waiting = sum(len(each.users or ()) for each in repetitions)
        if users is None or last.users is None or waiting + len(users) > MAX_REPEATED:
            last.users = None
        else:
            last.users.update(users)

    def repeat(self) -> None:
        """Repeat the reports that are due."""
        now = self._clock()
        while self._repetitions and self._repetitions[0].due_at <= now:
            due = self._repetitions.popleft()
            self._invalidate(due.users)
            self._sink.reached(due.position)

    def _invalidate(self, users: Collection[str] | None) -> None:
        if users is None:
            self._sink.invalidate_all()
        elif users:
            self._sink.invalidate(users)
