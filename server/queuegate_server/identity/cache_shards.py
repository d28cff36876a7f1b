"""The entries of the group cache, in shards of about the same size.

`cachetools` holds the entries of a shard in the order of their use.
"""

import math
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from queuegate_server.identity.resolver import Outcome

NEVER: Final = -math.inf

MAX_SHARDS: Final = 64
"""Dictionaries are copied when they grow. One for a million users would stop the event loop for
0.1 s, each of 64 for a few ms."""
MIN_SHARD_ENTRIES: Final = 1024
"""A small cache has fewer shards: each evicts its own entries, so one shard is an exact LRU."""
MAX_EVICTIONS: Final = 2
"""How many entries one `put` evicts at most, after the bound has been lowered."""


@dataclass(slots=True, eq=False)
class CacheEntry:
    """The outcome of a lookup of one user, and its lifetime. Only the cache changes an entry."""

    user: str
    outcome: Outcome
    resolved_at_wall: float = 0.0
    """When the resolver answered, by the wall clock, for people."""
    expires_at_wall: float = 0.0
    """When the entry expires, by the wall clock, for people."""
    expires_at: float = NEVER
    """When the entry expires, by the monotonic clock."""
    refresh_at: float = NEVER
    """When a decision made with the entry ceases to hold, by the monotonic clock. From then on a
    use starts a refresh. NEVER as soon as the entry is replaced, invalidated or evicted."""
    failure: "CacheEntry | None" = None
    """The failed lookup that came after these groups were resolved."""
    generation: int = 0
    """The lease (`CacheLease`) in which the resolver answered."""


@dataclass(slots=True)
class Occupancy:
    """How full a part of the cache is."""

    entries: int = 0
    """Entries now, expired ones included."""
    evictions: int = 0
    """Entries that made room for others, since the cache was built."""


class Shard(LRUCache[str, CacheEntry]):
    """A part of the cache. Unbounded here, since the bound of a cachetools cache is fixed."""

    def __init__(self) -> None:
        super().__init__(math.inf)

    def popitem(self) -> tuple[str, CacheEntry]:
        """Drop the least recently used entry, and mark it as dropped."""
        user, entry = super().popitem()
        entry.refresh_at = NEVER
        return user, entry


class Shards:
    """Entries of one kind, in shards of about the same size."""

    def __init__(self, count: int, occupancy: Occupancy) -> None:
        self._shards = [Shard() for _ in range(count)]
        self._occupancy = occupancy

    def shard(self, user: str) -> Shard:
        """Return the shard in which the entry of a user is, if there is one."""
        return self._shards[hash(user) % len(self._shards)]

    def put(self, entry: CacheEntry, max_entries: int) -> None:
        """Add an entry; the least recently used ones make room."""
        shard = self.shard(entry.user)
        replaced = shard.get(entry.user)
        if replaced is None:
            self._occupancy.entries += 1
        elif replaced is not entry:
            replaced.refresh_at = NEVER
        shard[entry.user] = entry
        for _ in range(MAX_EVICTIONS):
            if self._occupancy.entries <= max_entries or len(shard) == 1:
                return
            shard.popitem()
            self._occupancy.entries -= 1
            self._occupancy.evictions += 1

    def drop(self, user: str) -> CacheEntry | None:
        """Remove the entry of a user, if there is one, and return it."""
        entry = self.shard(user).pop(user, None)
        if entry is not None:
            self._occupancy.entries -= 1
            entry.refresh_at = NEVER
        return entry

    def take_all(self) -> list[Shard]:
        """Remove all entries, and return the shards that have them."""
        shards, self._shards = self._shards, [Shard() for _ in self._shards]
        self._occupancy.entries = 0
        return shards
