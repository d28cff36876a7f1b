"""Refresh-ahead: lookups of users whose groups are already known.

After an outage the groups of all users may have expired. If every user were looked up at the
next check, checks would wait for lookups, and lookups for each other. So refreshes start first
in, first out, and both their rate and their concurrency are bounded; meanwhile checks use the known
groups.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from queuegate_server.identity.resolver import Load

MAX_QUEUED: Final = 100_000
"""Further users are queued when they are next asked about."""


def _call_later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, call)


class RefreshQueue:
    """A first-in, first-out queue of users to look up again.

    Args:
        start: Starts the lookup of a user and returns its task, or None if the user no longer needs
            a lookup.
        load: Limits how many refreshes run at once, and start per second.
        call_later: Schedules a call, as the event loop does.
    """

    def __init__(
        self,
        start: Callable[[str], asyncio.Task[Any] | None],
        load: Load,
        *,
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] = _call_later,
    ) -> None:
        self._start: Callable[[str], asyncio.Task[Any] | None] | None = start
        """None once closed: otherwise this object and the owner of the lookups would form a cycle.
        """
        self._load = load
        self._call_later = call_later
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many users are queued."""
        return len(self._queue)

    def add(self, user: str) -> bool:
        """Start the lookup of a user, or queue it; return whether it was started.

        Nothing happens while the resolver must not be asked.
        """
        if user in self._queue or self._start is None or not (capacity := self._load.capacity):
            return False
        if not self._queue and self._running < capacity and self._load.acquire():
            return self._begin(user)
        if len(self._queue) < MAX_QUEUED:
            self._queue[user] = None
            self._schedule()
        return False

    def clear(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def close(self) -> None:
        """Start nothing from now on."""
        self._start = None
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        """Wake up when the bucket has a token, unless a refresh must end first."""
        if self._queue and self._timer is None and self._running < max(1, self._load.capacity):
            self._timer = self._call_later(self._load.wait(), self._wake_up)

    def _wake_up(self) -> None:
        self._timer = None
        capacity = self._load.capacity
        if not capacity:
            self._queue.clear()
        while self._queue and self._running < capacity and self._load.acquire():
            self._begin(self._queue.popitem(last=False)[0])
        self._schedule()

    def _begin(self, user: str) -> bool:
        task = None if self._start is None else self._start(user)
        if task is None:
            return False
        self._running += 1
        task.add_done_callback(self._ended)
        return True

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._running -= 1
        self._schedule()
