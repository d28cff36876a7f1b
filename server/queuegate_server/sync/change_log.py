"""Logs of recent changes to policies and groups, numbered sequentially.

A replica has two logs. `GateLog` numbers the changes sent to this process's gates. Some of these
changes, such as a newly loaded policy or an expired lease, are not fleet events.
`fleet/replica_log.py` keeps fleet events under the numbers assigned by Redis.
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
"""The maximum number of names in a log."""
MAX_INVALIDATED: Final = 1_000
"""The maximum number of names in a change; a larger change invalidates the entire partition."""


class StateChange(NamedTuple):
    """A new policy, or an invalidation of groups."""

    partition: str | None
    """The users' partition; None for a new policy."""
    users: frozenset[str] = frozenset()
    """The users whose groups are invalid; empty for all users of the partition."""

    def invalidated(self) -> Iterator[tuple[str, str | None]]:
        """Yield the (partition, user) pairs whose groups are invalid; a user of None means all."""
        if self.partition is not None:
            yield from ((self.partition, user) for user in self.users or (None,))


POLICY_CHANGED: Final = StateChange(None)


class ChangeLog:
    """The newest changes, with their numbers. Used from one event loop."""

    def __init__(self, start: int = 0, max_changes: int = MAX_CHANGES) -> None:
        """Create an empty log whose first change will get the number `start + 1`."""
        self.head = start
        """The number of the newest change."""
        self._max_changes = max_changes
        self._changes: deque[StateChange] = deque()
        self._names = 0
        self._invalidated: dict[tuple[str, str | None], int] = {}
        """For each partition and user (None: all users), the number of the newest change that
        invalidated the groups."""

    def policy_changed(self) -> int:
        """Record a new policy; return the change's number."""
        return self._append(POLICY_CHANGED)

    def invalidate(self, partition: str, users: Collection[str] = ()) -> int:
        """Record an invalidation, by default for all users; return the change's number."""
        named = frozenset(users) if len(users) <= MAX_INVALIDATED else frozenset()
        return self._append(StateChange(partition, named))

    @property
    def tail(self) -> int:
        """The number of the change that precedes the oldest change in the log."""
        return self.head - len(self._changes)

    def has_all_since(self, sequence: int) -> bool:
        """Return whether every change after `sequence` is still in the log."""
        return self.tail <= sequence <= self.head

    def since(self, sequence: int) -> list[StateChange]:
        """Return the changes after `sequence`, oldest first. The log must contain all of them."""
        return [*islice(reversed(self._changes), self.head - sequence)][::-1]

    def is_valid(self, partition: str, user: str, since: int) -> bool:
        """Return whether a user's groups, looked up after the change `since`, are still valid."""
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
    """The changes to send to this process's gates."""

    def __init__(self, server: bytes, max_changes: int = MAX_CHANGES) -> None:
        """Create an empty log. `server` is the server's 8-byte ID; each worker has its own log."""
        super().__init__(max_changes=max_changes)
        self.epoch: Final = server + os.urandom(EPOCH_BYTES - len(server))
        """Identifies this log."""
        self._server = server

    def has_seen(self, epoch: bytes, sequence: int) -> bool:
        """Return whether this process has applied the change with the given epoch and sequence.

        A change in another worker's log counts as applied, because a worker reports a change to its
        caller only after all workers have applied it.
        """
        if epoch == self.epoch:
            return sequence <= self.head
        return len(epoch) == EPOCH_BYTES and epoch.startswith(self._server)
