"""Rejects invalidated shared groups in Redis and in gates that move here from another replica.

Groups from other replicas are validated against the applied events. A change made by this replica
takes effect before its event is applied here. In between, the fence rejects the invalidated groups.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from queuegate.v1 import cursor_pb2, sync_pb2
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import ReplicaLog
from queuegate_server.sync.change_log import StateChange
from queuegate_server.sync.session import NOTHING_KEPT, KeptGroups


@dataclass(eq=False)
class PendingInvalidation:
    """An invalidation whose event is not applied yet. Its users' shared groups are rejected."""

    invalidated: StateChange
    event: LogPosition | None = None
    """The change's event; None until it has been appended."""

    def covers(self, partition: str, user: str) -> bool:
        """Return whether a user's groups are rejected."""
        name, users = self.invalidated
        return partition == name and (not users or user in users)


class OrderFence:
    """Implementation of `shared_groups.Fence` and `FleetEvents` based on the applied events."""

    def __init__(self, log: ReplicaLog, unsent: Collection[object]) -> None:
        """Start without pending changes. While `unsent` is not empty, no shared groups are used."""
        self._log: Final = log
        self._unsent = unsent
        self._pending: set[PendingInvalidation] = set()

    @property
    def position(self) -> LogPosition | None:
        """The newest applied event; None while groups cannot be validated."""
        return None if self._unsent else self._log.position

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether groups looked up at the position `since` are still valid."""
        if self._unsent or not self._log.accepts(partition, user, since):
            return False
        return not any(each.covers(partition, user) for each in self._unapplied())

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        """`position` in the form sent to callers."""
        return None if self.position is None else self.position.cursor

    def kept_groups(
        self, request: sync_pb2.SyncOpen, fingerprints: Mapping[str, bytes]
    ) -> KeptGroups:
        """Return the groups that a gate may keep; see `FleetEvents`.

        Groups that were valid at the gate's fleet cursor are still valid if this replica knows all
        later events, none of them invalidates the user, and the gate's previous replica has the
        same resolver settings.
        """
        theirs = {each.partition: each.resolver_fingerprint for each in request.held}
        kept = {name for name, own in fingerprints.items() if own and theirs.get(name) == own}
        if not request.HasField("fleet_cursor") or not kept:
            return NOTHING_KEPT
        events = self.since(request.fleet_cursor)
        if events is None:
            return NOTHING_KEPT
        return KeptGroups(sorted(kept), [event for event in events if event.partition in kept])

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        """Return the changes since a cursor; None if groups from that time cannot be validated."""
        events = self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))
        if events is None or self._unsent:
            return None
        return [*events, *(each.invalidated for each in self._unapplied())]

    def begin(self, partition: str, users: Collection[str]) -> PendingInvalidation:
        """Start rejecting the given users' groups, or all in the partition if `users` is empty."""
        pending = PendingInvalidation(StateChange(partition, frozenset(users)))
        self._pending = {*self._unapplied(), pending}
        return pending

    def end(self, pending: PendingInvalidation, event: LogPosition | None = None) -> None:
        """Stop rejecting the groups, either now or as soon as `event` has been applied."""
        if event is None:
            self._pending.discard(pending)
        else:
            pending.event = event

    def _unapplied(self) -> Collection[PendingInvalidation]:
        """Drop invalidations whose event has been applied or lost; return the others."""
        position = self._log.position
        if position is not None:
            self._pending = {
                each
                for each in self._pending
                if each.event is None
                or (each.event.epoch == position.epoch and not self._log.has_applied(each.event))
            }
        return self._pending
