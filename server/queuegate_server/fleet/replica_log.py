"""A replica's copy of the fleet's event log, and its lease: until when its cache may answer.

Pure: answers of Redis and times come in. Everything that does not fit into the order of events is
one thing, a gap: the stream was trimmed, Redis was emptied or restored, another history has begun.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from queuegate_server.fleet.events import Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.sync.event_log import EPOCH_BYTES, EventLog, StateChange

LEASE: Final = 2.0
"""Seconds for which a replica's cache may answer after it sent a heartbeat."""
ISOLATED_MAX_AGE: Final = 5.0
"""Seconds after the start of a lookup for which a replica that follows no events may use its
answer: barriers wait as long, because no invalidation reaches it."""
HEARTBEAT_INTERVAL: Final = 0.5
MAX_ABANDONED_HISTORIES: Final = 10_000
"""Histories that have ended and are remembered."""
CLOCK_MARGIN: Final = 0.1
"""Seconds that others add to a lease, for clocks that run at different rates."""


class ReplicaLog:
    """What one replica knows of the fleet's history."""

    def __init__(self) -> None:
        """Start without following a history."""
        self.lease_until = -math.inf
        """When the cache must stop answering, on the replica's own clock."""
        self._position: LogPosition | None = None
        self._ahead: dict[int, LogPosition] = {}
        """Events that are known to exist but have not been applied yet, by their numbers."""
        self._last_known: Sequence[LogPosition] = ()
        """The events that were known when this replica stopped following: the newest that was
        applied, and those ahead of it."""
        self._abandoned_histories: deque[bytes] = deque(maxlen=MAX_ABANDONED_HISTORIES)
        """The epochs of histories after which this replica has followed another one."""
        self._events = EventLog(bytes(EPOCH_BYTES))
        self._nonces: deque[bytes] = deque()
        """The nonces of the events in the log, preceded by the nonce of the event before them."""
        self._pending: tuple[int, float] | None = None
        """The head in the newest heartbeat answer, and when that heartbeat was sent; None once all
        events up to the head have been applied."""

    @property
    def position(self) -> LogPosition | None:
        """The newest event that was applied; None while no history is followed."""
        return self._position

    def has_lost_events(self, events: list[Event], head: LogPosition) -> bool:
        """Return whether a history lacks an event that this replica knew before it lost the order.

        A Redis promoted in a fail-over may lack events on which a barrier has relied: outdated
        groups in it would look valid. If its log has since grown beyond the events that are read,
        such groups are refused because they are too old. A Redis restored from a backup may have a
        history that had ended: it lacks all events of those that followed.

        Args:
            events: The newest events of the history, up to the head.
            head: The newest event.
        """
        if head.epoch in self._abandoned_histories:
            return True
        nonces = {head.sequence: head.nonce}
        for event in events:
            nonces[event.position.sequence - 1] = event.previous
        return any(
            known.sequence > head.sequence or nonces.get(known.sequence, known.nonce) != known.nonce
            for known in self._last_known
            if known.epoch == head.epoch
        )

    def missed(self, events: list[Event], head: LogPosition) -> Sequence[Event] | None:
        """Return the events that this replica has not applied because it had lost the order.

        Args:
            events: The newest events of the history, up to the head.
            head: The newest event.

        Returns:
            The events in their order; None if they do not lead from the newest event that was
            applied to the head: others may have been missed.
        """
        if not self._last_known or self._last_known[0].epoch != head.epoch:
            return None
        last = self._last_known[0]
        known = _contiguous_suffix(events, head)
        count = head.sequence - last.sequence
        if not 0 <= count <= len(known):
            return None
        missed = known[len(known) - count :]
        before = missed[0].previous if missed else head.nonce
        return missed if before == last.nonce else None

    def follow(self, events: list[Event], head: LogPosition, sent_at: float) -> None:
        """Begin to follow a history. Call it after the groups that the missed events invalidate
        have been dropped, and after the cache lease has ended.

        Args:
            events: The newest events of the history, up to the head, which tell whether values
                of other replicas are still valid. Events that do not fit are left out.
            head: The newest event.
            sent_at: When the head was asked for.
        """
        if self._last_known and self._last_known[0].epoch != head.epoch:
            self._abandoned_histories.append(self._last_known[0].epoch)
        known = _contiguous_suffix(events, head)
        self._events = EventLog(head.epoch, start=head.sequence - len(known))
        self._nonces = deque((known[0].previous if known else head.nonce,))
        for event in known:
            self._note(event)
        self._position = head
        self._ahead = {}
        self._pending = None
        self.lease_until = sent_at + LEASE

    def lose(self) -> None:
        """Follow no history any more."""
        if self._position is not None:
            self._last_known = (self._position, *self._ahead.values())
        self._position = self._pending = None
        self._ahead = {}
        self.lease_until = -math.inf

    def apply(self, event: Event) -> bool:
        """Take the next event, whose change has been carried out. Return False for a gap: the
        event does not follow the one before.
        """
        if not self.fits(event):
            return False
        self._note(event)
        self._position = event.position
        self._ahead.pop(event.position.sequence, None)
        if self._pending is not None and event.position.sequence >= self._pending[0]:
            self.lease_until = max(self.lease_until, self._pending[1] + LEASE)
            self._pending = None
        return True

    def fits(self, event: Event) -> bool:
        """Return whether an event is the one after that which was applied last."""
        return self._is_next(event) and not self.shows_loss(event)

    def shows_loss(self, event: Event) -> bool:
        """Return whether an event has the place of one that Redis has lost, or follows it."""
        if self._position is None or not self._is_next(event):
            return False
        known = self._ahead.get(event.position.sequence, event.position)
        return event.previous != self._position.nonce or known != event.position

    def _is_next(self, event: Event) -> bool:
        position = self._position
        return (
            position is not None
            and event.position.epoch == position.epoch
            and event.position.sequence == position.sequence + 1
        )

    def contains(self, event: LogPosition) -> bool:
        """Return whether the history has an event; one that has not been applied yet is looked for
        by its number only.
        """
        newest = self.newest
        if self._position is None or newest is None or event.epoch != newest.epoch:
            return False
        if event.sequence > self._position.sequence:
            known = self._ahead.get(event.sequence, event)
            return event.sequence <= newest.sequence and known == event
        return self._nonce(event.sequence) == event.nonce

    def has_event(self, event: LogPosition) -> bool:
        """Return whether an event is one of those that were applied and are remembered."""
        position = self._position
        return (
            position is not None
            and event.epoch == position.epoch
            and self._nonce(event.sequence) == event.nonce
        )

    def note_known(self, event: LogPosition) -> None:
        """Note that an event exists, because this replica has appended it or Redis has named it."""
        position = self._position
        if (
            position is not None
            and event.epoch == position.epoch
            and event.sequence > position.sequence
        ):
            # If it has another nonce than before, Redis has lost one: then no event fits.
            self._ahead.setdefault(event.sequence, event)

    @property
    def newest(self) -> LogPosition | None:
        """The newest event that is known to exist; None while no history is followed."""
        return self._ahead[max(self._ahead)] if self._ahead else self._position

    def heartbeat_answered(self, head: LogPosition, known: LogPosition, sent_at: float) -> bool:
        """Extend the lease, at once or when the events up to the head have been applied.

        Args:
            head: The newest event, by Redis.
            known: The newest event that was known to exist when the heartbeat was sent.
            sent_at: When it was sent, on the replica's own clock.

        Returns:
            False for a gap: history was lost.
        """
        position = self._position
        if (
            position is None
            or head.epoch != position.epoch
            or head.sequence < known.sequence
            or (head.sequence == known.sequence and head.nonce != known.nonce)
        ):
            return False
        if head.sequence > position.sequence:
            self._pending = (head.sequence, sent_at)
            self.note_known(head)
            return self._ahead[head.sequence] == head
        if self._nonce(head.sequence) not in (None, head.nonce):
            return False
        self.lease_until = max(self.lease_until, sent_at + LEASE)
        return True

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether groups of a user that another replica looked up at a position are valid.

        They are if this replica knows all events since then, and none of them invalidates the user.
        """
        return self.has_event(since) and self._events.is_valid(partition, user, since.sequence)

    def since(self, position: LogPosition) -> Sequence[StateChange] | None:
        """Return the changes after an event; None if some of them are not remembered."""
        return self._events.since(position.sequence) if self.has_event(position) else None

    def has_applied(self, event: LogPosition) -> bool:
        """Return whether an event has been applied, and not another one with its number.

        For events that are no longer remembered, the number decides: a loss of events was followed
        by the events that are remembered, or by a start of this replica with an empty cache.
        """
        position = self._position
        return (
            position is not None
            and event.epoch == position.epoch
            and event.sequence <= position.sequence
            and self._nonce(event.sequence) in (None, event.nonce)
        )

    def _note(self, event: Event) -> None:
        change = event.change
        if change.is_reload:
            self._events.policy_changed()
        else:
            self._events.invalidate(change.partition, change.users)
        self._nonces.append(event.position.nonce)
        while len(self._nonces) > self._events.head - self._events.tail + 1:
            self._nonces.popleft()

    def _nonce(self, sequence: int) -> bytes | None:
        """Return the nonce of an event that is remembered, or that is the one before those."""
        index = sequence - self._events.tail
        return self._nonces[index] if 0 <= index < len(self._nonces) else None


def _contiguous_suffix(events: list[Event], head: LogPosition) -> list[Event]:
    """Return the longest run of consecutive events that ends at the head."""
    known: list[Event] = []
    expected = head
    for event in reversed(events):
        if event.position != expected:
            break
        known.append(event)
        expected = LogPosition(head.epoch, expected.sequence - 1, event.previous)
    return known[::-1]
