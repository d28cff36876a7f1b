"""Refuses shared groups that a change has invalidated: in Redis, and in gates that come from
another replica.

Groups of other replicas are judged by the events that were applied. A change by this replica drops
groups before its event is applied; until then, old groups must not come back.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.sync.event_log import StateChange
from queuegate_server.sync.session import NOTHING_KEPT, KeptGroups


class PendingInvalidation:
    """A change whose event has yet to be applied here: no shared groups of its users are used."""

    def __init__(self, partition: str, users: Collection[str]) -> None:
        """Cover some users of a partition; all of them if none is named."""
        self.event: LogPosition | None = None
        """The event of the change; None while it has not been appended."""
        self.invalidated: Final = StateChange(partition, frozenset(users))

    def covers(self, partition: str, user: str) -> bool:
        """Return whether the groups of a user are refused."""
        users = self.invalidated.users
        return partition == self.invalidated.partition and (not users or user in users)


class OrderFence:
    """Implements `shared_groups.Fence` and `sync.session.FleetEvents` from the events that this
    replica has applied.
    """

    def __init__(self, log: ReplicaLog, unsent: Collection[object]) -> None:
        """Know of no pending change.

        Args:
            log: The events that were applied.
            unsent: The changes of this replica that wait to be sent to Redis. Until they are, no
                shared groups are used.
        """
        self._log: Final = log
        self._unsent = unsent
        self._pending: set[PendingInvalidation] = set()

    @property
    def position(self) -> LogPosition | None:
        """The newest event that was applied; None while groups cannot be judged."""
        return None if self._unsent else self._log.position

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether groups that were looked up at a position are still valid."""
        if self._unsent or not self._log.accepts(partition, user, since):
            return False
        return not any(each.covers(partition, user) for each in self._unapplied())

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        """The newest event that was applied, as callers know it; None while groups cannot be
        judged.
        """
        position = self.position
        return None if position is None else position.cursor

    def kept_groups(
        self, request: sync_pb2.SyncOpen, fingerprints: Mapping[str, bytes]
    ) -> KeptGroups:
        """Return the groups that a caller may keep, as `FleetEvents` describes.

        What it holds was valid at its fleet cursor. It is still valid if this replica knows all
        events since then, none of them invalidates the user, and both replicas use the same
        resolver settings.
        """
        held = {each.partition: each.resolver_fingerprint for each in request.held}
        kept = {
            name
            for name, fingerprint in fingerprints.items()
            if fingerprint and held.get(name) == fingerprint
        }
        if not request.HasField("fleet_cursor") or not kept:
            return NOTHING_KEPT
        events = self.since(request.fleet_cursor)
        if events is None:
            return NOTHING_KEPT
        return KeptGroups(sorted(kept), [event for event in events if event.partition in kept])

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        """Return what has been invalidated since an event; None while groups from then cannot be
        judged.
        """
        events = self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))
        if events is None or self._unsent:
            return None
        return [*events, *(each.invalidated for each in self._unapplied())]

    def begin(self, partition: str, users: Collection[str]) -> PendingInvalidation:
        """Accept no groups of these users (none named: of the partition) from now on."""
        pending = PendingInvalidation(partition, users)
        self._pending = {*self._unapplied(), pending}
        return pending

    def end(self, pending: PendingInvalidation, event: LogPosition | None = None) -> None:
        """Accept groups again: at once, or as soon as an event has been applied."""
        if event is None:
            self._pending.discard(pending)
        else:
            pending.event = event

    def _unapplied(self) -> Collection[PendingInvalidation]:
        if self._pending:
            self._pending = {each for each in self._pending if not self._is_over(each)}
        return self._pending

    def _is_over(self, pending: PendingInvalidation) -> bool:
        """Return whether the event of a change has been applied, or belongs to another history."""
        position, event = self._log.position, pending.event
        return (
            event is not None
            and position is not None
            and (event.epoch != position.epoch or self._log.has_applied(event))
        )
