"""Refresh-ahead: looks up cached users again in the background.

After an outage, all cached groups may have expired. If every check then had to wait for a lookup,
checks would be delayed by a long queue of lookups. Instead, checks use the cached groups while
refreshes run in FIFO order, at a limited rate and concurrency.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from queuegate_server.identity.resolver import Load

MAX_QUEUED: Final = 100_000
"""The maximum queue length. A user rejected by a full queue may be queued at the next check."""


def _call_later(seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, call)


class RefreshQueue:
    """A FIFO queue of users to refresh.

    Args:
        start: Starts a user's lookup and returns its task, or None if no refresh is needed now.
        load: Limits the rate and concurrency of refreshes.
        call_later: Schedules a call; has the signature of `loop.call_later`.
    """

    def __init__(
        self,
        start: Callable[[str], asyncio.Task[Any] | None],
        load: Load,
        *,
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] = _call_later,
    ) -> None:
        self._start: Callable[[str], asyncio.Task[Any] | None] | None = start
        """None after `close`, to break the reference cycle with the group resolver."""
        self._load = load
        self._call_later = call_later
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._running = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, user: str) -> bool:
        """Start or queue a user's refresh; return whether it has started.

        Returns False without queueing the user if the resolver must not be queried now.
        """
        if user in self._queue or self._start is None or not (capacity := self._load.capacity):
            return False
        if not self._queue and self._running < capacity and self._load.acquire():
            return self._launch(user)
        if len(self._queue) < MAX_QUEUED:
            self._queue[user] = None
            self._schedule()
        return False

    def clear(self) -> None:
        """Empty the queue."""
        self._queue.clear()

    def close(self) -> None:
        """Empty the queue, and start no more refreshes."""
        self._start = None
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        """Set a timer for the next refresh that the rate limit allows, if a slot is free."""
        if self._queue and self._timer is None and self._running < max(1, self._load.capacity):
            self._timer = self._call_later(self._load.wait(), self._wake_up)

    def _wake_up(self) -> None:
        self._timer = None
        capacity = self._load.capacity
        if not capacity:
            self._queue.clear()
        while self._queue and self._running < capacity and self._load.acquire():
            self._launch(self._queue.popitem(last=False)[0])
        self._schedule()

    def _launch(self, user: str) -> bool:
        task = None if self._start is None else self._start(user)
        if task is None:
            return False
        self._running += 1
        task.add_done_callback(self._finish)
        return True

    def _finish(self, _: asyncio.Task[Any]) -> None:
        self._running -= 1
        self._schedule()
