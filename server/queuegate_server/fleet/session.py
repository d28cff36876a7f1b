"""A replica's reactions to Redis replies, events and losses.

Pure: the inputs are replies, events and times. The outputs are requests to Redis and work for this
process; `member.py` and `follower.py` execute both. `tests/resilience/fleet/` explores all orders
of messages, losses and restarts.
"""

import math
import os
from collections.abc import Callable
from functools import partial
from typing import Final

from queuegate_server.fleet import steps
from queuegate_server.fleet.barrier import FleetBarrier, Peers
from queuegate_server.fleet.confirmations import Confirmations
from queuegate_server.fleet.events import Change, Event, LogState, MalformedEntry, ReplicaStatus
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import NONCE_BYTES, LogPosition
from queuegate_server.fleet.replica_log import (
    HEARTBEAT_INTERVAL,
    ISOLATED_MAX_AGE,
    ReplicaLease,
    ReplicaLog,
)

CLEANING_INTERVAL: Final = 0.05
"""Seconds between heartbeats while Redis holds too many statuses; each heartbeat removes some."""
JOIN_POLL_SECONDS: Final = 0.05
"""Seconds between heartbeats while this replica determines whether others are running."""
STARTING_SECONDS: Final = 10.0
"""How long a replica that follows no events reports that it is starting, in seconds from its start.
Joining takes less."""
MAX_EXPECTED: Final = 10_000
"""The maximum number of a replica's own events that it recognizes when they arrive. Older events
are applied like other replicas' events."""
MAX_UNSENT: Final = 1_000
"""The maximum number of unsent changes. If there are more, all are widened to cover all users."""
_random_nonce: Final = partial(os.urandom, NONCE_BYTES)


class FleetSession:
    """A replica's state machine. Not thread-safe."""

    def __init__(
        self,
        instance: str,
        name: str,
        now: float,
        *,
        version: str = "",
        role: str = "",
        new_nonce: Callable[[], bytes] = _random_nonce,
    ) -> None:
        """Create a replica that follows no history.

        `instance` identifies the process; `name`, `version` and `role` are for display. All times
        are on this replica's own clock, in seconds.
        """
        self.name: Final = name
        self.log: Final = ReplicaLog()
        self.peers: Final = Peers(instance, name)
        self.lease: Final = ReplicaLease(max_age=ISOLATED_MAX_AGE)
        """The lease on all of this replica's caches."""
        self.confirmations: Final = Confirmations()
        self.unsent: Final[dict[Change, bytes]] = {}
        """Changes made while Redis was unreachable, with their nonces."""
        self.sending = 0
        """The number of unsent changes that are being sent."""
        self.fence: Final = OrderFence(self.log, self.unsent)
        self.new_nonce: Final = new_nonce
        self.pause = 0.0
        """Seconds until the next heartbeat."""
        self.gaps = 0
        """The number of times that this replica has lost its history."""
        self.applied = 0
        """The number of applied events from other replicas."""
        self.unfinished_reloads = 0
        """The number of reloads in progress that were started by events or a join."""
        self.certified_at = -math.inf
        """The send time of the newest heartbeat whose reply was consistent with the log."""
        self.begun = b""
        """The epoch of the history that this replica last tried to start."""
        self.has_left = False
        """Whether this replica has stopped, and its lease and its gates' leases have ended."""
        self._version = version
        self._role = role
        self._starting_until = now + STARTING_SECONDS
        self._serial = 0
        self._clock: tuple[float, float] | None = None
        self._own: dict[bytes, None] = {}
        """The nonces of this replica's events that may still arrive."""
        self._malformed: tuple[MalformedEntry, bytes, float] | None = None
        """The entry that made this replica stop following, its history, and when it was read."""
        self.lease.on_end(self._lease_ended)

    @property
    def has_followed(self) -> bool:
        """Whether this replica has ever followed the fleet."""
        return self.log.position is not None or self.gaps > 0

    @property
    def has_unsent(self) -> bool:
        """Whether changes have taken effect here that may not be events yet."""
        return bool(self.unsent or self.sending)

    def status(self, now: float, own: steps.OwnState) -> ReplicaStatus:
        """Return the current status of this replica."""
        position = self.log.position
        age = 0.0 if position is None else now - self.peers.began_by(position.epoch, now)
        return ReplicaStatus(
            instance=self.peers.instance,
            name=self.name,
            serial=self._serial,
            version=self._version,
            role=self._role,
            epoch="" if position is None else position.epoch.hex(),
            epoch_age=max(0.0, age),
            sequence=0 if position is None else position.sequence,
            confirmed_through=self.confirmations.through,
            confirmed=self.confirmations.waited_out,
            stale=self.confirmations.stale,
            failed=self.confirmations.failed,
            **own._asdict(),
            clock=self._clock,
            is_starting=position is None and now < self._starting_until,
            has_left=self.has_left,
        )

    def heartbeat(self, now: float, own: steps.OwnState) -> steps.Heartbeat:
        """Return the next heartbeat to send."""
        self._serial += 1
        self.confirmations.expire(now)
        return steps.Heartbeat(self.status(now, own), self.log.newest, now)

    def merge(self, reply: LogState, now: float) -> list[ReplicaStatus]:
        """Merge a reply's statuses into `peers`; return the statuses to remove from Redis."""
        self._clock, is_complete = reply.clock, reply.is_complete
        return self.peers.merge(reply.statuses, now, epoch=reply.epoch, is_complete=is_complete)

    def handle_heartbeat(
        self, heartbeat: steps.Heartbeat, reply: LogState, now: float
    ) -> steps.NewHistory | steps.Loss | steps.UnsentChanges | steps.NewestEvents | None:
        """Handle a heartbeat's reply, already passed to `merge`; return the next step."""
        self.pause = HEARTBEAT_INTERVAL if reply.is_complete else CLEANING_INTERVAL
        head, known = reply.head, heartbeat.known
        if self.log.position is None or known is None:
            return self._approach(reply, heartbeat.sent_at, now)
        if head is None or not self.log.renew_lease(head, known, heartbeat.sent_at):
            must_begin = head is None or head.epoch == known.epoch
            cause = "Redis has lost events" if must_begin else "another history has begun in Redis"
            return self.stop(cause, reply.epoch if must_begin else None)
        self._extend_lease()
        self.certified_at = heartbeat.sent_at
        return self._send_unsent(head) if self.unsent else None

    def _approach(
        self, reply: LogState, sent_at: float, now: float
    ) -> steps.NewHistory | steps.UnsentChanges | steps.NewestEvents | None:
        """Handle a heartbeat's reply before this replica follows a history."""
        head = reply.head
        if head is None:
            self.pause = 0.0
            return steps.NewHistory(reply.epoch)
        if not self.has_followed and head.epoch != self.begun:
            # This replica has just started. It cannot tell whether the history lacks invalidations
            # because Redis was restored from a backup while no replica was running.
            is_followed = self.peers.follows(head.epoch, now)
            if is_followed is None:
                self.pause = JOIN_POLL_SECONDS
                return None
            if not is_followed:
                self.pause = 0.0
                return steps.NewHistory(head.epoch)
        return self._send_unsent(head) if self.unsent else steps.NewestEvents(head, sent_at)

    def read(
        self, request: steps.NewestEvents, events: list[Event]
    ) -> steps.NewHistory | steps.Join | None:
        """Handle the newest events of the history in Redis; return the next step."""
        head = request.head
        if self.unsent:
            self.pause = 0.0
            return None
        stray = self._pop_stray_entry(request)
        cause = "Redis has lost events" if self.log.has_lost_events(events, head) else stray
        if cause:
            self.pause = 0.0
            return steps.NewHistory(head.epoch, str(cause))
        return steps.Join(events, head, request.sent_at, self.log.missed(events, head))

    def join(self, join: steps.Join) -> bool:
        """Start following a history; return whether the policy must be reloaded.

        Reload before calling `confirm_through`, because a join also confirms unfinished reloads.
        """
        # Groups looked up while working alone may predate an event. Ending the lease also makes
        # gates invalidate all groups, including any sent before the missed events were known.
        self.lease.end()
        self.log.follow(join.events, join.head, join.sent_at)
        self._extend_lease()
        may_include_reload = join.missed is None or any(e.change.is_reload for e in join.missed)
        return self.unfinished_reloads > 0 or may_include_reload

    def receive(self, event: Event) -> steps.Receipt | steps.Loss | None:
        """Handle an event; return the next step, or None if no history is being followed."""
        if not self.log.fits(event):
            # Replace the history, because replicas that never saw the event do not notice its loss.
            begin = event.position.epoch if self.log.shows_loss(event) else None
            return None if self.log.position is None else self.stop("events are missing", begin)
        is_own = event.position.nonce in self._own
        self._own.pop(event.position.nonce, None)
        pending = self.fence.begin(event.change.partition, event.change.users)
        return steps.Receipt(event, is_own, pending)

    def apply(self, receipt: steps.Receipt) -> bool:
        """Record an event as applied; return False if the lease has already ended."""
        self.fence.end(receipt.pending)
        if not self.log.apply(receipt.event):
            return False
        self._extend_lease()
        self.applied += not receipt.is_own
        return True

    def confirm_through(self, head: LogPosition) -> bool:
        """Confirm all changes up to a join's head; return False if the history has been lost."""
        if not self.log.has_applied(head):
            return False
        self.confirmations.add_through(head)
        return True

    def malformed(self, error: MalformedEntry, epoch: bytes, now: float) -> steps.Loss | None:
        """Handle a malformed entry, read at time `now` from the history with epoch `epoch`."""
        position = self.log.position
        if position is None or position.epoch != epoch:
            return None  # the entry belongs to a former history
        self._malformed = error, epoch, now
        return self.stop(str(error))

    def _pop_stray_entry(self, request: steps.NewestEvents) -> MalformedEntry | None:
        """Return the malformed entry if it is beyond the head, where no replica can have added it.

        Replicas move the head with each append. The entry is returned only once; otherwise, this
        replica would replace one history after another.
        """
        if self._malformed is None:
            return None
        entry, epoch, read_at = self._malformed
        if epoch == request.head.epoch and request.sent_at <= read_at:
            return None
        self._malformed = None
        is_stray = epoch == request.head.epoch and entry.entry_id > (request.head.sequence, 0)
        return entry if is_stray else None

    def stop(self, cause: str, begin: bytes | None = None) -> steps.Loss:
        """Stop following the history because events were lost or cannot be applied.

        `begin` is the epoch of the history to replace, if any.
        """
        self.lease.end()
        self.pause = 0.0
        return steps.Loss(cause, begin)

    def _lease_ended(self) -> None:
        self.lease.max_age = ISOLATED_MAX_AGE
        if self.log.position is not None:
            self.gaps += 1
            self.log.lose()
        self._own.clear()
        self.confirmations.clear()

    def _extend_lease(self) -> None:
        """Extend the caches' lease until the log's lease expires."""
        self.lease.ends_at = self.log.lease_until
        self.lease.max_age = math.inf

    def append(
        self, change: Change, nonce: bytes, head: LogPosition | None = None
    ) -> steps.Append | None:
        """Return a request to append a change already in effect here.

        Returns None if no history is followed. The change is appended after `head`, by default the
        newest known event.
        """
        head = self.log.newest if head is None else head
        if head is None:
            return None
        self._own[nonce] = None
        if len(self._own) > MAX_EXPECTED:
            del self._own[next(iter(self._own))]
        return steps.Append(head, change, nonce)

    def handle_append(
        self, request: steps.Append, reply: LogState
    ) -> steps.Append | LogPosition | None:
        """Handle the reply to an append, already passed to `merge`.

        Return the event if it was appended, a request to retry, or None if the history has ended.
        """
        before, head = request.head, reply.head
        if head is None or head.epoch != before.epoch or head.sequence < before.sequence:
            return None
        if reply.has_appended:
            self.log.note_known(head)
            return head
        return request._replace(head=head, must_wait=head == before)

    def not_appended(self, nonce: bytes) -> None:
        """Forget the nonce of an event that is known not to have been appended."""
        self._own.pop(nonce, None)

    def send_later(self, change: Change) -> None:
        """Queue a change that has taken effect here, to be sent once Redis can be reached."""
        self.keep_unsent(change._replace(is_awaited=False))
        if len(self.unsent) > MAX_UNSENT:
            changes = [*self.unsent]
            self.unsent.clear()
            for each in changes:
                self.keep_unsent(each._replace(users=frozenset()))

    def keep_unsent(self, change: Change, nonce: bytes = b"") -> None:
        """Queue an unsent change. `nonce` is that of the failed attempt to send it, if any."""
        self.unsent.setdefault(change, nonce or self.new_nonce())

    def pop_unsent(self) -> tuple[Change, bytes]:
        """Remove and return the oldest unsent change and its nonce.

        It is removed before being sent, because an identical change made during the attempt must
        be sent separately.
        """
        change = next(iter(self.unsent))
        return change, self.unsent.pop(change)

    def barrier(self, event: LogPosition, now: float, **timeouts: float) -> FleetBarrier:
        """Return a barrier for a change that was just appended; see `FleetBarrier`."""
        return FleetBarrier(self.peers, event, now, has_event=self.log.has_event, **timeouts)

    def has_reached_all(self, barrier: FleetBarrier, now: float, seconds: float = 0.0) -> bool:
        """Return whether all other replicas have stopped using the state before the change.

        Each replica may take `seconds` to apply the change. The barrier may rely on expired leases
        only if a later heartbeat shows that Redis still has the event; if Redis had lost it, leases
        on the old state could have been renewed.
        """
        if barrier.next_end(now, seconds) is not None:
            return False
        if not barrier.relies_on_leases:
            return True
        barrier.ended_at = min(barrier.ended_at, now)
        return self.certified_at >= barrier.ended_at and self.log.contains(barrier.event)

    def _send_unsent(self, head: LogPosition) -> steps.UnsentChanges:
        self.pause = 0.0
        return steps.UnsentChanges(head)
