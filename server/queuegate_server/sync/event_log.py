"""The changes that callers with copies of the state must learn of, in their order."""

import os
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final, NamedTuple

SERVER_BYTES: Final = 8
EPOCH_BYTES: Final = 16
MAX_EVENTS: Final = 65_536
"""Changes that a caller may miss and still resume."""
MAX_NAMES: Final = 262_144
"""Names in all these changes."""
MAX_INVALIDATED: Final = 1_000
"""Names in one event. More are the same as all users of the partition."""


class StateChange(NamedTuple):
    """A change: another policy, or groups of users that are no longer valid."""

    partition: str | None
    """The partition whose users are meant; None for another policy."""
    users: frozenset[str] = frozenset()
    """The users; empty for all of the partition."""

    def invalidated(self) -> Iterator[tuple[str, str | None]]:
        """Yield the partition with each user; with None if all users are meant."""
        if self.partition is not None:
            yield from ((self.partition, user) for user in self.users or (None,))


POLICY_CHANGED: Final = StateChange(None)


class EventLog:
    """The newest changes, numbered from 1. Used from one event loop."""

    def __init__(self, server: bytes, max_events: int = MAX_EVENTS, start: int = 0) -> None:
        """Start without changes.

        Args:
            server: Identifies the server in 8 bytes; each of its workers has a log of its own.
            max_events: How many changes to keep.
            start: How many changes there were before.
        """
        self.epoch: Final = server + os.urandom(EPOCH_BYTES - len(server))
        """Identifies this log."""
        self.head = start
        """The number of the newest change."""
        self._server = server
        self._max_events = max_events
        self._events: deque[StateChange] = deque()
        self._names = 0
        self._invalidated: dict[tuple[str, str | None], int] = {}
        """The newest change in which each user was invalidated; None for all of the partition."""

    def policy_changed(self) -> int:
        """Add that another policy is served; return the number of the change."""
        return self._append(POLICY_CHANGED)

    def invalidate(self, partition: str, users: Collection[str] = ()) -> int:
        """Add that groups are no longer valid, those of all users of the partition if none is
        named; return the number of the change.
        """
        named = frozenset(users) if len(users) <= MAX_INVALIDATED else frozenset()
        return self._append(StateChange(partition, named))

    @property
    def tail(self) -> int:
        """The number of the change after which all are kept."""
        return self.head - len(self._events)

    def has_all_since(self, sequence: int) -> bool:
        """Return whether every change after one is still kept."""
        return self.tail <= sequence <= self.head

    def has_seen(self, epoch: bytes, sequence: int) -> bool:
        """Return whether this process knows of a change that was reported to a caller.

        A worker reports a change when all workers have carried it out.
        """
        if epoch == self.epoch:
            return sequence <= self.head
        return len(epoch) == EPOCH_BYTES and epoch.startswith(self._server)

    def since(self, sequence: int) -> list[StateChange]:
        """Return the changes after one, which must still be kept, oldest first."""
        return [*islice(reversed(self._events), self.head - sequence)][::-1]

    def is_valid(self, partition: str, user: str, since: int) -> bool:
        """Return whether the groups of a user that were looked up at a position still hold."""
        invalidated = max(
            self._invalidated.get((partition, user), 0), self._invalidated.get((partition, None), 0)
        )
        return self.has_all_since(since) and invalidated <= since

    def _append(self, event: StateChange) -> int:
        self._events.append(event)
        self._names += len(event.users)
        self.head += 1
        for key in event.invalidated():
            self._invalidated[key] = self.head
        while len(self._events) > self._max_events or self._names > MAX_NAMES:
            sequence = self.head - len(self._events) + 1
            dropped = self._events.popleft()
            self._names -= len(dropped.users)
            for key in dropped.invalidated():
                if self._invalidated.get(key) == sequence:
                    del self._invalidated[key]
        return self.head
