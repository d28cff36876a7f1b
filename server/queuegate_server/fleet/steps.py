"""What a replica has to do next: requests to Redis, and work for its process."""

from collections.abc import Sequence
from typing import NamedTuple

from queuegate_server.fleet.events import Change, Event, ReplicaStatus
from queuegate_server.fleet.fence import PendingInvalidation
from queuegate_server.fleet.keys import LogPosition


class OwnState(NamedTuple):
    """What a replica reports about itself, except the order of events."""

    revision: int = 0
    checksum: str = ""
    """The checksum of its policy; empty while it has none."""
    gates: int = 0
    problem: str = ""
    """What Redis refuses to do for it, as a sentence."""


class Heartbeat(NamedTuple):
    """A heartbeat to send."""

    status: ReplicaStatus
    known: LogPosition | None
    """The newest event that was known to exist when it was sent."""
    sent_at: float


class NewHistory(NamedTuple):
    """Request: begin another history, and call `has_begun` with its epoch."""

    before: bytes
    """The epoch of the history to replace; empty if there is none."""
    cause: str = ""
    """The fault in that history, if any, for the log."""


class Loss(NamedTuple):
    """Work: log that this replica has stopped following the fleet."""

    cause: str
    begin: bytes | None = None
    """The epoch of the history to replace, if any."""


class UnsentChanges(NamedTuple):
    """Request: append a change that could not be sent before, after this event."""

    head: LogPosition


class NewestEvents(NamedTuple):
    """Request: read the newest events up to one, and call `read`."""

    head: LogPosition
    sent_at: float
    """When the head was requested."""


class Join(NamedTuple):
    """Work: invalidate what was missed, and call `join`."""

    events: list[Event]
    """The newest events, up to the head."""
    head: LogPosition
    sent_at: float
    missed: Sequence[Event] | None
    """The events that were not applied; None if they are unknown: invalidate all groups. An ended
    lease is not enough: groups of an earlier lease are stale groups while the resolver fails."""

    @property
    def has_reload(self) -> bool:
        """Whether the missed events may require reading the policy again."""
        return self.missed is None or any(each.change.is_reload for each in self.missed)


class Append(NamedTuple):
    """Request: append a change after an event, and call `append_answered`."""

    head: LogPosition
    change: Change
    nonce: bytes
    has_next_turn: bool = False
    """Whether another writer has the next turn; if so, wait a moment."""


class Receipt(NamedTuple):
    """Work: carry out what this event asks for, and call `apply`."""

    event: Event
    is_own: bool
    """Whether it is an event of this replica, whose change has taken effect."""
    pending: PendingInvalidation

    @property
    def must_invalidate(self) -> bool:
        """Whether groups must be invalidated before the event counts as applied."""
        return not (self.is_own or self.event.change.is_reload)

    @property
    def must_reload(self) -> bool:
        """Whether the policy must be read again after the event has been applied."""
        return self.event.change.is_reload and not self.is_own

    @property
    def must_confirm(self) -> bool:
        """Whether this replica must confirm that no gate decides without the change."""
        return self.event.change.is_awaited and not self.is_own
