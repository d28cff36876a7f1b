"""Finds the queues that a denied user may use instead, for messages."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache

from queuegate.policy.decide import usable
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues.model import Usable

SECONDS: Final = 0.05
"""How long a search may take."""
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
    time.
    """

    def __init__(self) -> None:
        self._partition: Partition | None = None
        self._cache: LRUCache[tuple[str, tuple[str, ...]], Usable] = LRUCache(_MAX_CACHED)

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
        found = self._cache.get(key)
        if found is None:
            found = await _search(partition, user, key[1])
            if self._partition is partition and len(groups) <= _MAX_CACHED_GROUPS:
                self._cache[key] = found
        return found


async def _search(partition: Partition, user: str, groups: Sequence[str]) -> Usable:
    paths = partition.paths
    found: list[str] = []
    end = time.monotonic() + SECONDS
    for start in range(0, len(paths), _CHUNK):
        if time.monotonic() > end:
            return Usable(found, is_complete=False)
        chunk = paths[start : start + _CHUNK]
        allowed = usable(partition, chunk, Access.SUBMIT, user, groups)
        found += [path for path, _ in allowed or ()]
        if len(found) > MAX_COUNTED:
            return Usable(found[:MAX_COUNTED], is_complete=False)
        await asyncio.sleep(0)
    return Usable(found, is_complete=True)
