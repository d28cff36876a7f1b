"""Entries by user in the order of their use, in many small tables.

A table is copied whenever it grows. With a million users in one, that kept the event loop from
all else for 0.2 s; of these tables one at a time grows, within 1 ms.
"""

import heapq
from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

TABLES: Final = 128
"""How many; the table of a user is that at `hash(user) % TABLES`."""


class Used(Protocol):
    """What is known of a user."""

    user: str
    last_use: int
    """Grows with each use of any entry."""


T = TypeVar("T", bound=Used)


class UseOrder(Generic[T]):
    """Finds an entry by its user, and the one that was not used for longest."""

    def __init__(self) -> None:
        self.tables: tuple[OrderedDict[str, T], ...] = tuple(OrderedDict() for _ in range(TABLES))
        """Each has its least recently used entry first. For reading only."""
        self._count = 0
        self._newest = 0
        # A heap of tables, each with a number that is not above the last use of its entries.
        self._bounds = [(0, number) for number in range(TABLES)]

    def __len__(self) -> int:
        """Return how many entries there are."""
        return self._count

    def get(self, user: str) -> T | None:
        """Return the entry of a user."""
        return self.tables[hash(user) % TABLES].get(user)

    def put(self, entry: T, use: int) -> None:
        """Store an entry, which may be there already, as the one used last of all."""
        table = self.tables[hash(entry.user) % TABLES]
        self._count -= len(table)
        table[entry.user] = entry
        table.move_to_end(entry.user)
        self._count += len(table)
        entry.last_use = self._newest = use

    def remove(self, entry: T) -> None:
        """Drop an entry, which must be there."""
        del self.tables[hash(entry.user) % TABLES][entry.user]
        self._count -= 1

    def oldest(self) -> T | None:
        """Return the entry that was not used for longest."""
        while self._count:
            bound, number = self._bounds[0]
            entry = next(iter(self.tables[number].values()), None)
            if entry is not None and entry.last_use == bound:
                return entry
            # Whatever comes into an empty table is used later than all that was used so far.
            bound = self._newest + 1 if entry is None else entry.last_use
            heapq.heapreplace(self._bounds, (bound, number))
        return None
