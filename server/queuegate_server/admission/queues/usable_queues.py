"""Finds queues to suggest in the message when a user is denied."""

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from queuegate.policy.decide import usable
from queuegate.policy.names import SEPARATOR
from queuegate_server.admission.queues.model import QueueName, Usable
from queuegate_server.admission.queues.names import QueueNames
from queuegate_server.runtime.pacing import Pace

SECONDS: Final = 0.05
"""How long a review may search, in seconds."""
MAX_COUNTED: Final = 100
"""The maximum number of queues to count."""
_CHUNK: Final = 500
"""The number of queues searched between two pauses. Takes less than 1 ms."""
_MAX_CACHED: Final = 1_000
_MAX_CACHED_GROUPS: Final = 1_000
"""The results for users in more groups are not cached, because the groups are part of the key."""


class UsableQueues:
    """Searches the queues of the served policy, and caches the results.

    A controller that retries a denied request every second would otherwise cause a search each
    time. A search that takes too long is continued by the next review with the same requester.
    """

    def __init__(self) -> None:
        self._names: QueueNames | None = None
        self._cache: LRUCache[tuple[QueueName, str, str, tuple[str, ...]], _Search] = LRUCache(
            _MAX_CACHED
        )

    def clear(self) -> None:
        """Release the results, and the partition to which they belong."""
        self._names = None
        self._cache.clear()

    async def find(
        self, names: QueueNames, place: QueueName, namespace: str, user: str, groups: Sequence[str]
    ) -> Usable:
        """Return queues that a user may use in a place, as far as they are found within SECONDS.

        Args:
            names: The names of the served policy's queues.
            place: The place where the queue is named: an empty name, and the access required there.
            namespace: The object's namespace.
            user: The user's name.
            groups: The user's groups.
        """
        if names is not self._names:
            self._names = names
            self._cache.clear()
        key = (place, namespace, user, tuple(groups))
        search = self._cache.get(key)
        if search is None:
            search = _Search(names, *key)
            if len(groups) <= _MAX_CACHED_GROUPS:
                self._cache[key] = search
        await search.advance()
        return search.result()


@dataclass(slots=True, eq=False)
class _Search:
    """A search and its results so far."""

    _queue_names: QueueNames
    _place: QueueName
    _namespace: str
    _user: str
    _groups: Sequence[str]
    _found: list[str] = field(default_factory=list)
    _next: int = field(init=False)
    """The position of the next queue in the partition's sorted paths."""
    _end: int = field(init=False)
    """The position after the last queue that the place can name."""

    def __post_init__(self) -> None:
        paths = self._queue_names.partition.paths
        below = self._queue_names.below(self._place, self._namespace)
        self._next = bisect_left(paths, f"{below}{SEPARATOR}")
        self._end = bisect_left(paths, f"{below}{chr(ord(SEPARATOR) + 1)}")

    async def advance(self) -> None:
        """Search until the result is known, or for SECONDS."""
        partition, place = self._queue_names.partition, self._place
        end = time.monotonic() + SECONDS
        pace = Pace()
        while (
            self._next < self._end and len(self._found) <= MAX_COUNTED and time.monotonic() <= end
        ):
            chunk = partition.paths[self._next : min(self._next + _CHUNK, self._end)]
            self._next += len(chunk)
            asked = self._queue_names.asked(chunk, place, self._namespace)
            allowed = usable(partition, asked, place.access, self._user, self._groups)
            names = (
                self._queue_names.name(path, place, self._namespace) for path, _ in allowed or ()
            )
            self._found += [name for name in names if name]
            await pace.pause_if_due()

    def result(self) -> Usable:
        """Return the result so far."""
        is_complete = self._next >= self._end
        return Usable(self._found[:MAX_COUNTED], is_complete and len(self._found) <= MAX_COUNTED)
