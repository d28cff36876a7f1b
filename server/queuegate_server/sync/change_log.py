"""The newest changes to the state that decides, numbered in their order.

A replica has two such logs. `GateLog` numbers what this process tells its own gates, including what
is not an event of a fleet: a policy that was just loaded, a lease that has ended.
`fleet/replica_log.py` keeps the events of the fleet under the numbers that Redis gave them.
"""

import os
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

SERVER_BYTES: Final = 8
EPOCH_BYTES: Final = 16
MAX_CHANGES: Final = 65_536
"""The maximum number of changes that a gate may miss and still resume."""
MAX_NAMES: Final = 262_144
"""The maximum number of names in all these changes."""
MAX_INVALIDATED: Final = 1_000
"""The maximum number of names in one change. More names count as all users of the partition."""


class StateChange(NamedTuple):
    """A change: another policy, or groups that are invalid."""

    partition: str | None
    """The partition of the users; None for another policy."""
    users: frozenset[str] = frozenset()
    """The users; empty for all of the partition."""

    def invalidated(self) -> Iterator[tuple[str, str | None]]:
        """Yield the partition with each user; with None for all users."""
        if self.partition is not None:
            yield from ((self.partition, user) for user in self.users or (None,))


POLICY_CHANGED: Final = StateChange(None)


class ChangeLog:
    """The newest changes and their numbers. Used from one event loop."""

    def __init__(self, start: int = 0, max_changes: int = MAX_CHANGES) -> None:
        """Start without changes, after the change with the number `start`."""
        self.head = start
        """The number of the newest change."""
        self._max_changes = max_changes
        self._changes: deque[StateChange] = deque()
        self._names = 0
        self._invalidated: dict[tuple[str, str | None], int] = {}
        """The newest change that invalidated each user; None for all of the partition."""

    def policy_changed(self) -> int:
        """Record that another policy is served; return the change's number."""
        return self._append(POLICY_CHANGED)

    def invalidate(self, partition: str, users: Collection[str] = ()) -> int:
        """Record that groups are invalid, by default those of all users; return the number."""
        named = frozenset(users) if len(users) <= MAX_INVALIDATED else frozenset()
        return self._append(StateChange(partition, named))

    @property
    def tail(self) -> int:
        """The number of the change after which all changes are kept."""
        return self.head - len(self._changes)

    def has_all_since(self, sequence: int) -> bool:
        """Return whether every change after a number is still kept."""
        return self.tail <= sequence <= self.head

    def since(self, sequence: int) -> list[StateChange]:
        """Return the changes after a number, which must still be kept, oldest first."""
        return [*islice(reversed(self._changes), self.head - sequence)][::-1]

    def is_valid(self, partition: str, user: str, since: int) -> bool:
        """Return whether the groups of a user that were looked up at a position still hold."""
        invalidated = max(
            self._invalidated.get((partition, user), 0), self._invalidated.get((partition, None), 0)
        )
        return self.has_all_since(since) and invalidated <= since

    def _append(self, change: StateChange) -> int:
        self._changes.append(change)
        self._names += len(change.users)
        self.head += 1
        for key in change.invalidated():
            self._invalidated[key] = self.head
        while len(self._changes) > self._max_changes or self._names > MAX_NAMES:
            sequence = self.tail + 1
            oldest = self._changes.popleft()
            self._names -= len(oldest.users)
            for key in oldest.invalidated():
                if self._invalidated.get(key) == sequence:
                    del self._invalidated[key]
        return self.head


class GateLog(ChangeLog):
    """The changes that the gates of this process must learn of."""

    def __init__(self, server: bytes, max_changes: int = MAX_CHANGES) -> None:
        """Start without changes. The 8 bytes identify the server; each worker has its own log."""
        super().__init__(max_changes=max_changes)
        self.epoch: Final = server + os.urandom(EPOCH_BYTES - len(server))
        """Identifies this log."""
        self._server = server

    def has_seen(self, epoch: bytes, sequence: int) -> bool:
        """Return whether this process knows of a change that was reported to a caller, which a
        worker does when all workers have carried the change out.
        """
        if epoch == self.epoch:
            return sequence <= self.head
        return len(epoch) == EPOCH_BYTES and epoch.startswith(self._server)
