"""A replica's next steps: requests to send to Redis, and work for its own process.

Functions and attributes named here belong to `FleetSession`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from queuegate_server.fleet.events import Change, Event, ReplicaStatus
from queuegate_server.fleet.fence import PendingInvalidation
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.view import QueueDecisions
from queuegate_server.sync.connected import ConnectedGate


class OwnState(NamedTuple):
    """The fields of `ReplicaStatus` that do not depend on the event log."""

    revision: int = 0
    checksum: str = ""
    gates: int = 0
    problem: str = ""
    queue_decisions: Sequence[QueueDecisions] = ()
    connected_gates: Sequence[ConnectedGate] = ()
    stale_seconds: float = 0.0
    http_addresses: Sequence[str] = ()


class Heartbeat(NamedTuple):
    """A heartbeat to send."""

    status: ReplicaStatus
    known: LogPosition | None
    """The newest event known to exist when the heartbeat was sent."""
    sent_at: float


class NewHistory(NamedTuple):
    """Request: start a new history, then set `begun` to its epoch."""

    before: bytes
    """The epoch of the history to replace; empty if there is none."""
    cause: str = ""
    """The fault in the old history, if any, for logging."""


class Loss(NamedTuple):
    """Work: log that the history was lost, and start a new one if `begin` is set."""

    cause: str
    begin: bytes | None = None
    """The epoch of the history to replace, if any."""


class UnsentChanges(NamedTuple):
    """Request: append the oldest unsent change after event `head`."""

    head: LogPosition


class NewestEvents(NamedTuple):
    """Request: read the newest events up to the head, then pass them to `read`."""

    head: LogPosition
    sent_at: float
    """When the head was requested."""


class Join(NamedTuple):
    """Work: apply the missed invalidations, then call `join`."""

    events: list[Event]
    """The newest events, up to the head."""
    head: LogPosition
    sent_at: float
    missed: Sequence[Event] | None
    """The events that this replica missed. If they are unknown (None), all groups must be
    invalidated. Ending the lease is not enough, because stale groups are used while the resolver
    fails."""


class Append(NamedTuple):
    """Request: append a change after event `head`, then call `handle_append`."""

    head: LogPosition
    change: Change
    nonce: bytes
    must_wait: bool = False
    """Whether another writer has the next turn. If so, wait before sending this request."""


class Receipt(NamedTuple):
    """Work: apply the event's change, then call `apply`."""

    event: Event
    is_own: bool
    """Whether this replica appended the event. If so, the change is already in effect here."""
    pending: PendingInvalidation

    @property
    def must_invalidate(self) -> bool:
        """Whether groups must be invalidated before `apply`."""
        return not (self.is_own or self.event.change.is_reload)

    @property
    def must_reload(self) -> bool:
        """Whether the policy must be reloaded after `apply`."""
        return self.event.change.is_reload and not self.is_own

    @property
    def must_confirm(self) -> bool:
        """Whether this replica must report when all of its gates have applied the change."""
        return self.event.change.is_awaited and not self.is_own
