"""Finds the queues that a denied user may use instead, for messages."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache

from queuegate.policy.decide import usable
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.model import Usable

SECONDS: Final = 0.05
"""How long a review may search."""
MAX_COUNTED: Final = 100
"""The maximum number of queues that are counted."""
_CHUNK: Final = 500
"""The number of queues between two pauses; less than 1 ms."""
_MAX_CACHED: Final = 1_000
_MAX_CACHED_GROUPS: Final = 1_000
"""The results for users in more groups are not cached, because the groups are part of the key."""


class UsableQueues:
    """Searches the queues of the served policy, and caches the results.

    A controller that retries a denied request every second would otherwise cause a search each
    time. A search that takes too long is continued by the next review with the same requester.
    """

    def __init__(self) -> None:
        self._partition: Partition | None = None
        self._cache: LRUCache[tuple[str, tuple[str, ...]], _Search] = LRUCache(_MAX_CACHED)

    def clear(self) -> None:
        """Release the results, and the partition to which they belong."""
        self._partition = None
        self._cache.clear()

    async def find(self, partition: Partition, user: str, groups: Sequence[str]) -> Usable:
        """Return queues to which a user may submit, or those found within SECONDS.

        Args:
            partition: The partition.
            user: The user's name.
            groups: The user's groups.
        """
        if partition is not self._partition:
            self._partition = partition
            self._cache.clear()
        key = (user, tuple(groups))
        search = self._cache.get(key)
        if search is None:
            search = _Search(partition, *key)
            if len(groups) <= _MAX_CACHED_GROUPS:
                self._cache[key] = search
        await search.advance()
        return search.result()


@dataclass(slots=True, eq=False)
class _Search:
    """A search, with what it has found so far."""

    _partition: Partition
    _user: str
    _groups: Sequence[str]
    _found: list[str] = field(default_factory=list)
    _searched: int = 0
    """The number of queues searched."""

    async def advance(self) -> None:
        """Search until the result is known, or for SECONDS."""
        paths = self._partition.paths
        end = time.monotonic() + SECONDS
        while (
            self._searched < len(paths)
            and len(self._found) <= MAX_COUNTED
            and time.monotonic() <= end
        ):
            chunk = paths[self._searched : self._searched + _CHUNK]
            self._searched += len(chunk)
            allowed = usable(self._partition, chunk, Access.SUBMIT, self._user, self._groups)
            self._found += [path for path, _ in allowed or ()]
            await asyncio.sleep(0)

    def result(self) -> Usable:
        """Return what has been found."""
        is_complete = self._searched >= len(self._partition.paths)
        return Usable(self._found[:MAX_COUNTED], is_complete and len(self._found) <= MAX_COUNTED)
