"""A replica's place in the fleet's one order of events, and until when its cache may answer.

Pure: answers of Redis and times come in. Everything that does not fit into the order is one thing,
a gap: the stream was trimmed, Redis was emptied or restored, another history has begun.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from queuegate_server.fleet.events import Event
from queuegate_server.fleet.keys import Position
from queuegate_server.sync.event_log import EPOCH_BYTES, EventLog

LEASE: Final = 2.0
"""Seconds for which a replica's cache may answer after it sent a heartbeat."""
ALONE_LIFETIME: Final = 5.0
"""Seconds after the start of a lookup for which its answer may be used by a replica that follows no
events: the others cannot reach it, and wait as long."""
HEARTBEAT_INTERVAL: Final = 0.5
CLOCK_MARGIN: Final = 0.1
"""Seconds that others add to a lease, for clocks that run at different rates."""


class ReplicaState:
    """What one replica knows of the fleet's history."""

    def __init__(self) -> None:
        """Start without following a history."""
        self.lease_until = -math.inf
        """When the cache must stop to answer, on the replica's own clock."""
        self._position: Position | None = None
        self._newest: Position | None = None
        """The newest event known to exist, which may not have been applied yet."""
        self._last_known: Position | None = None
        """That of the time before the order was lost."""
        self._last_applied: Position | None = None
        """The newest event that was applied then."""
        self._log = EventLog(bytes(EPOCH_BYTES))
        self._nonces: deque[bytes] = deque()
        """Those of the changes in the log, and of the one before."""
        self._pending: tuple[int, float] | None = None
        """The head in the newest answer to a heartbeat, and when that was sent, until all events
        up to the head have been applied."""

    @property
    def position(self) -> Position | None:
        """The newest event that was applied; None while no history is followed."""
        return self._position

    def has_lost_events(self, events: list[Event], head: Position) -> bool:
        """Return whether a history lacks an event that this replica knew before it lost the order.

        A Redis that was promoted in a fail-over may lack events that a barrier has promised: groups
        in it from before them would seem to be valid. If the history is so much longer that its
        events do not show it, such groups are refused for their age.

        Args:
            events: The newest events of the history, up to the head.
            head: The newest event.
        """
        known = self._last_known
        if known is None or known.epoch != head.epoch:
            return False
        nonces = {head.sequence: head.nonce}
        for event in events:
            nonces[event.position.sequence - 1] = event.previous
        there = nonces.get(known.sequence)
        return head.sequence < known.sequence or there not in (None, known.nonce)

    def missed(self, events: list[Event], head: Position) -> Sequence[Event] | None:
        """Return the events that this replica has not applied because it had lost the order.

        Args:
            events: The newest events of the history, up to the head.
            head: The newest event.

        Returns:
            The events in their order; None if they do not lead from the newest event that was
            applied to the head: others may have been missed.
        """
        last = self._last_applied
        if last is None or last.epoch != head.epoch:
            return None
        known = _leading_to(events, head)
        count = head.sequence - last.sequence
        if not 0 <= count <= len(known):
            return None
        missed = known[len(known) - count :]
        before = missed[0].previous if missed else head.nonce
        return missed if before == last.nonce else None

    def follow(self, events: list[Event], head: Position, sent_at: float) -> None:
        """Begin to follow a history. What its missed events forget must have been dropped after
        Redis answered, and the lease of everything else must have ended.

        Args:
            events: The newest events of the history, up to the head, which tell whether values
                of other replicas are still valid. Events that do not fit are left out.
            head: The newest event.
            sent_at: When the head was asked for.
        """
        known = _leading_to(events, head)
        self._log = EventLog(head.epoch, start=head.sequence - len(known))
        self._nonces = deque((known[0].previous if known else head.nonce,))
        for event in known:
            self._note(event)
        self._position = self._newest = head
        self._pending = None
        self.lease_until = sent_at + LEASE

    def lose(self) -> None:
        """Follow no history any more."""
        self._last_known = self._newest or self._last_known
        self._last_applied = self._position or self._last_applied
        self._position = self._newest = self._pending = None
        self.lease_until = -math.inf

    def apply(self, event: Event) -> bool:
        """Take the next event, whose change has been carried out. Return False for a gap: the
        event does not follow the one before.
        """
        if not self.fits(event):
            return False
        self._note(event)
        self._position = event.position
        self.note_newest(event.position)
        if self._pending is not None and event.position.sequence >= self._pending[0]:
            self.lease_until = max(self.lease_until, self._pending[1] + LEASE)
            self._pending = None
        return True

    def fits(self, event: Event) -> bool:
        """Return whether an event is the one after that which was applied last."""
        return self._is_next(event) and not self.shows_loss(event)

    def shows_loss(self, event: Event) -> bool:
        """Return whether an event has the place of one that Redis has lost, or follows it."""
        position, newest = self._position, self._newest
        if position is None or newest is None or not self._is_next(event):
            return False
        is_newest = event.position.sequence == newest.sequence
        return event.previous != position.nonce or (is_newest and event.position != newest)

    def _is_next(self, event: Event) -> bool:
        position = self._position
        return (
            position is not None
            and event.position.epoch == position.epoch
            and event.position.sequence == position.sequence + 1
        )

    def contains(self, event: Position) -> bool:
        """Return whether the history has an event; one that has not been applied yet is looked for
        by its number only.
        """
        position, newest = self._position, self._newest
        if position is None or newest is None or event.epoch != newest.epoch:
            return False
        if event.sequence > position.sequence:
            return event.sequence <= newest.sequence
        return self._nonce(event.sequence) == event.nonce

    def note_newest(self, position: Position) -> None:
        """Note that an event exists, because this replica has appended it or Redis has named it."""
        newest = self._newest
        if newest is not None and position.epoch == newest.epoch:
            self._newest = max(newest, position, key=lambda each: each.sequence)

    @property
    def newest(self) -> Position | None:
        """The newest event that is known to exist; None while no history is followed."""
        return self._newest

    def heartbeat_answered(self, head: Position, known: Position, sent_at: float) -> bool:
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
            self.note_newest(head)
            return True
        if self._nonce(head.sequence) not in (None, head.nonce):
            return False
        self.lease_until = max(self.lease_until, sent_at + LEASE)
        return True

    def accepts(self, partition: str, user: str, since: Position) -> bool:
        """Return whether groups of a user that another replica looked up at a position hold.

        They do if this replica knows all events since then, and none of them forgets the user.
        """
        position = self._position
        return (
            position is not None
            and since.epoch == position.epoch
            and self._nonce(since.sequence) == since.nonce
            and self._log.is_valid(partition, user, since.sequence)
        )

    def has_applied(self, event: Position) -> bool:
        """Return whether an event has been applied, and not another one with its number.

        Of events that are not remembered the number counts: those that were lost were followed by
        all that are, or by this replica's start with nothing cached.
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
        if change.kind == "forget":
            self._log.forget(change.partition, change.users)
        else:
            self._log.policy_changed()
        self._nonces.append(event.position.nonce)
        while len(self._nonces) > self._log.head - self._log.tail + 1:
            self._nonces.popleft()

    def _nonce(self, sequence: int) -> bytes | None:
        """Return the nonce of an event that is remembered, or that is the one before those."""
        index = sequence - self._log.tail
        return self._nonces[index] if 0 <= index < len(self._nonces) else None


def _leading_to(events: list[Event], head: Position) -> list[Event]:
    """Return the newest events up to the head that follow each other."""
    known: list[Event] = []
    expected = head
    for event in reversed(events):
        if event.position != expected:
            break
        known.append(event)
        expected = Position(head.epoch, expected.sequence - 1, event.previous)
    return known[::-1]
