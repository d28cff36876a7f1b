"""Keeps groups out that a change has made outdated, when shared groups are read or written.

Other replicas' groups are judged by the events that were applied. A change that this replica is
carrying out forgets groups before its event is applied: until then the old ones must not come back
from Redis.
"""

from collections.abc import Callable, Collection
from typing import Final

from queuegate_server.fleet.keys import Position
from queuegate_server.fleet.replica import ReplicaState


class Hold:
    """Keeps shared groups out while a change is carried out, until its event has been applied."""

    def __init__(self, partition: str, users: Collection[str]) -> None:
        """Hold the groups of some users of a partition; of all if none is named."""
        self.event: Position | None = None
        """The event of the change; None while it has not been appended."""
        self._partition = partition
        self._users = frozenset(users)

    def covers(self, partition: str, user: str) -> bool:
        """Return whether the groups of a user are held."""
        return partition == self._partition and (not self._users or user in self._users)


class OrderFence:
    """`shared_groups.Fence` by the events of a replica."""

    def __init__(self, state: ReplicaState, is_behind: Callable[[], bool]) -> None:
        """Hold nothing yet.

        Args:
            state: The events that were applied.
            is_behind: Returns whether changes of this replica wait to be sent to Redis. Until they
                are, no shared groups are used.
        """
        self._state: Final = state
        self._is_behind = is_behind
        self._holds: set[Hold] = set()

    @property
    def position(self) -> Position | None:
        """The newest event that was applied; None while groups cannot be judged."""
        return None if self._is_behind() else self._state.position

    def accepts(self, partition: str, user: str, since: Position) -> bool:
        """Return whether groups that were looked up at a position still hold."""
        if self._is_behind() or not self._state.accepts(partition, user, since):
            return False
        if self._holds:
            self._holds = {hold for hold in self._holds if not self._is_over(hold)}
        return not any(hold.covers(partition, user) for hold in self._holds)

    def hold(self, partition: str, users: Collection[str]) -> Hold:
        """Accept no groups of these users (none named: of the partition) from now on."""
        hold = Hold(partition, users)
        self._holds.add(hold)
        return hold

    def release(self, hold: Hold, event: Position | None = None) -> None:
        """End a hold: at once, or as soon as an event has been applied."""
        if event is None:
            self._holds.discard(hold)
        else:
            hold.event = event

    def _is_over(self, hold: Hold) -> bool:
        """Return whether the event of a change has been applied, or belongs to another history."""
        position, event = self._state.position, hold.event
        return (
            event is not None
            and position is not None
            and (event.epoch != position.epoch or event.sequence <= position.sequence)
        )
