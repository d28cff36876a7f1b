"""A replica's copy of the fleet's event log, and the lease on its caches.

Pure: the inputs are Redis replies and times. An event that does not continue the log shows that the
stream was trimmed, Redis was emptied or restored, or a new history has started.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from queuegate_server.fleet.events import Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.sync.change_log import ChangeLog, StateChange

LEASE: Final = 2.0
"""How long after sending a heartbeat a replica may use its caches, in seconds."""
ISOLATED_MAX_AGE: Final = 5.0
"""How long a replica that follows no events may use a lookup's result, in seconds from the
lookup's start. Barriers wait this long because invalidations do not reach such a replica."""
HEARTBEAT_INTERVAL: Final = 0.5
MAX_ABANDONED_HISTORIES: Final = 10_000
"""The maximum number of former histories whose epochs are kept."""
CLOCK_MARGIN: Final = 0.1
"""Seconds that other replicas add to a lease, in case clocks run at different rates."""


class ReplicaLog:
    """The fleet's history as known to one replica."""

    def __init__(self) -> None:
        self.lease_until = -math.inf
        """When the lease expires, on the replica's own clock."""
        self.position: LogPosition | None = None
        """The newest applied event; None while no history is followed."""
        self._ahead: dict[int, LogPosition] = {}
        """Events known to exist but not yet applied, by number."""
        self._last_known: Sequence[LogPosition] = ()
        """The last applied event when following stopped, and the later events known then."""
        self._abandoned_histories: deque[bytes] = deque(maxlen=MAX_ABANDONED_HISTORIES)
        """The epochs of former histories."""
        self._changes = ChangeLog()
        """The newest applied events, by number."""
        self._nonces: deque[bytes] = deque()
        """The nonces of the events in `_changes`, and before them, the preceding event's nonce."""
        self._pending: tuple[int, float] | None = None
        """The number of the newest unapplied head, and when the heartbeat that returned it was
        sent."""

    def has_lost_events(self, events: list[Event], head: LogPosition) -> bool:
        """Return whether a history lacks an event that this replica knew of while following it.

        A Redis server promoted in a failover may lack events that a barrier relied on. Outdated
        groups stored there would then look valid. (If more events have been added since than are
        read here, such groups are rejected as too old.) A Redis server restored from a backup may
        contain a former history, without the events of later histories.
        """
        if head.epoch in self._abandoned_histories:
            return True
        nonces = {head.sequence: head.nonce}
        nonces |= {event.position.sequence - 1: event.previous for event in events}
        return any(
            known.sequence > head.sequence or nonces.get(known.sequence, known.nonce) != known.nonce
            for known in self._last_known
            if known.epoch == head.epoch
        )

    def missed(self, events: list[Event], head: LogPosition) -> Sequence[Event] | None:
        """Return the events that this replica missed while it followed no history.

        Return None if `events` do not lead from the last applied event to the head without a gap.
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
        """Start following a history. The caller must first apply missed events and end the lease.

        Args:
            events: The newest events up to the head, used to validate other replicas' values.
                Events before a gap are ignored.
            head: The newest event.
            sent_at: When the head was requested.
        """
        if self._last_known and self._last_known[0].epoch != head.epoch:
            self._abandoned_histories.append(self._last_known[0].epoch)
        known = _contiguous_suffix(events, head)
        self._changes = ChangeLog(head.sequence - len(known))
        self._nonces = deque((known[0].previous if known else head.nonce,))
        for event in known:
            self._note(event)
        self.position, self._ahead, self._pending = head, {}, None
        self.lease_until = sent_at + LEASE

    def lose(self) -> None:
        """Stop following the history, and give up the lease."""
        if self.position is not None:
            self._last_known = (self.position, *self._ahead.values())
        self.position, self._ahead, self._pending = None, {}, None
        self.lease_until = -math.inf

    def apply(self, event: Event) -> bool:
        """Record an event as applied; return False if it does not follow the last applied event."""
        if not self.fits(event):
            return False
        self._note(event)
        self.position = event.position
        self._ahead.pop(event.position.sequence, None)
        if self._pending is not None and event.position.sequence >= self._pending[0]:
            self.lease_until = max(self.lease_until, self._pending[1] + LEASE)
            self._pending = None
        return True

    def fits(self, event: Event) -> bool:
        """Return whether an event directly follows the last applied event."""
        return self._is_next(event) and not self.shows_loss(event)

    def shows_loss(self, event: Event) -> bool:
        """Return whether `event` is next, but its nonces prove that Redis lost a known event."""
        if self.position is None or not self._is_next(event):
            return False
        known = self._ahead.get(event.position.sequence, event.position)
        return event.previous != self.position.nonce or known != event.position

    def _is_next(self, event: Event) -> bool:
        number = event.position.sequence
        return self._follows(event.position) and number == self._changes.head + 1

    def _follows(self, event: LogPosition) -> bool:
        """Return whether an event belongs to the followed history."""
        return self.position is not None and event.epoch == self.position.epoch

    def contains(self, event: LogPosition) -> bool:
        """Return whether the followed history contains an event, as far as this replica knows."""
        newest = self.newest
        if newest is None or event.epoch != newest.epoch or event.sequence > newest.sequence:
            return False
        if event.sequence <= self._changes.head:
            return self.has_event(event)
        return self._ahead.get(event.sequence, event) == event

    def has_event(self, event: LogPosition) -> bool:
        """Return whether an event has been applied and is still in this log."""
        return self._follows(event) and self._nonce(event.sequence) == event.nonce

    def has_applied(self, event: LogPosition) -> bool:
        """Return whether exactly this event has been applied.

        For an event older than this log, a matching number suffices because, after a loss, this
        replica has either read the events in the log or started with an empty cache.
        """
        return (
            self._follows(event)
            and event.sequence <= self._changes.head
            and self._nonce(event.sequence) in (None, event.nonce)
        )

    def note_known(self, event: LogPosition) -> None:
        """Record the existence of an event that was appended here or reported by Redis."""
        if self._follows(event) and event.sequence > self._changes.head:
            # Keep the first nonce. If the event arrives with a different nonce, Redis has lost the
            # known event.
            self._ahead.setdefault(event.sequence, event)

    @property
    def newest(self) -> LogPosition | None:
        """The newest event known to exist; None while no history is followed."""
        return self._ahead[max(self._ahead)] if self._ahead else self.position

    def renew_lease(self, head: LogPosition, known: LogPosition, sent_at: float) -> bool:
        """Extend the lease, either now or once the events up to the head have been applied.

        Return False if the followed history was lost.

        Args:
            head: The newest event in Redis.
            known: The newest event known when the heartbeat was sent.
            sent_at: When the heartbeat was sent, on the replica's own clock.
        """
        if (
            not self._follows(head)
            or head.sequence < known.sequence
            or (head.sequence == known.sequence and head.nonce != known.nonce)
        ):
            return False
        if head.sequence > self._changes.head:
            self._pending = (head.sequence, sent_at)
            self.note_known(head)
            return self._ahead[head.sequence] == head
        if self._nonce(head.sequence) not in (None, head.nonce):
            return False
        self.lease_until = max(self.lease_until, sent_at + LEASE)
        return True

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether a user's groups, looked up at the position `since`, are still valid."""
        return self.has_event(since) and self._changes.is_valid(partition, user, since.sequence)

    def since(self, position: LogPosition) -> Sequence[StateChange] | None:
        """Return the changes after an event; None if some of them are unknown."""
        return self._changes.since(position.sequence) if self.has_event(position) else None

    def _note(self, event: Event) -> None:
        change = event.change
        if change.is_reload:
            self._changes.policy_changed()
        else:
            self._changes.invalidate(change.partition, change.users)
        self._nonces.append(event.position.nonce)
        while len(self._nonces) > self._changes.head - self._changes.tail + 1:
            self._nonces.popleft()

    def _nonce(self, sequence: int) -> bytes | None:
        """Return an event's nonce; None unless the event is in this log or directly before it."""
        index = sequence - self._changes.tail
        return self._nonces[index] if 0 <= index < len(self._nonces) else None


def _contiguous_suffix(events: list[Event], head: LogPosition) -> list[Event]:
    """Return the longest run of consecutive events up to the head."""
    known: list[Event] = []
    expected = head
    for event in reversed(events):
        if event.position != expected:
            break
        known.append(event)
        expected = LogPosition(head.epoch, expected.sequence - 1, event.previous)
    return known[::-1]


@dataclass(slots=True, eq=False)
class ReplicaLease:
    """The lease on all of a replica's caches; implements `identity.shared.CacheLease`.

    The expiry is compared with the clock at each use, because a process resumed after a pause must
    notice the expiry before it responds.
    """

    max_age: float = math.inf
    """The maximum age of a result in seconds; see `CacheLease`."""
    ends_at: float = math.inf
    """When the lease expires, on the caches' monotonic clock."""
    generation: int = 0
    """The number of ended leases. A lookup belongs to the lease that was valid when it started."""
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Register a callback for the end of each lease. It runs before the next response."""
        self._on_end.append(callback)

    def end_if_expired(self, now: float) -> bool:
        """End the lease if it has expired; return whether it has."""
        if now < self.ends_at:
            return False
        self.end()
        return True

    def end(self) -> None:
        """End the lease. All cached entries must then be revalidated before use."""
        self.ends_at = math.inf
        self.generation += 1
        for callback in self._on_end:
            callback()
