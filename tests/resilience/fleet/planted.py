"""Faults that someone could build into a fleet's protocol. A search must find each.

Each replaces a method of the real classes while a search runs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

from queuegate.gate.session import GateSession
from queuegate.v1 import cursor_pb2
from queuegate_server.fleet.events import Event
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import LEASE, ReplicaLog
from queuegate_server.fleet.session import FleetSession
from queuegate_server.fleet.steps import Join
from queuegate_server.sync.barrier import Unconfirmed
from queuegate_server.sync.change_log import StateChange
from queuegate_server.sync.session import NOTHING_KEPT, KeptGroups, Session
from tests.resilience.fleet import moving_gates
from tests.resilience.fleet.world import OLD, Bounds


class Fault(NamedTuple):
    """A method, and another one in its place."""

    owner: type
    name: str
    method: Any

    def __str__(self) -> str:
        return getattr(self.method, "__name__", self.name)

    def planted(self) -> Any:
        """Have the fault while a context lasts."""
        return patch.object(self.owner, self.name, self.method)


_renew_lease = ReplicaLog.renew_lease
_follow = ReplicaLog.follow
_since = ReplicaLog.since
_handle_heartbeat = FleetSession.handle_heartbeat
_receive = FleetSession.receive
_join = FleetSession.join
_reset = Session._reset
_gate_reset = GateSession.reset


def accepts_outdated_groups(
    self: ReplicaLog, partition: str, user: str, since: LogPosition
) -> bool:
    """Take the groups of other replicas without a look at the events since."""
    return self.position is not None


def does_not_notice_missing_events(self: ReplicaLog, event: Event) -> bool:
    """Carry out an event that does not follow the one before."""
    position = self.position
    return position is not None and event.position.sequence > position.sequence


def extends_its_lease_behind_the_head(
    self: ReplicaLog, head: LogPosition, known: LogPosition, sent_at: float
) -> bool:
    """Take the answer to a heartbeat for a lease, though there are events to apply."""
    fits = _renew_lease(self, head, known, sent_at)
    if fits:
        self.lease_until = max(self.lease_until, sent_at + LEASE)
    return fits


def does_not_notice_lost_history(
    self: ReplicaLog, head: LogPosition, known: LogPosition, sent_at: float
) -> bool:
    """Keep following when Redis has an earlier state."""
    if self.position is not None:
        self.lease_until = max(self.lease_until, sent_at + LEASE)
    return True


def forgets_the_order_that_it_lost(
    self: ReplicaLog, events: list[Event], head: LogPosition
) -> bool:
    """Follow a Redis that lacks events which were known before the lease ended."""
    return False


def follows_histories_that_have_ended(
    self: ReplicaLog, events: list[Event], head: LogPosition, sent_at: float
) -> None:
    """Follow a Redis that was restored to a history before the newest."""
    _follow(self, events, head, sent_at)
    self._abandoned_histories.clear()


def misses_nothing(self: ReplicaLog, events: list[Event], head: LogPosition) -> Sequence[Event]:
    """Invalidate nothing on joining."""
    return ()


def takes_its_lease_from_the_answer(
    self: FleetSession, heartbeat: Any, answer: Any, now: float
) -> Any:
    """Count the lease from when an answer arrives."""
    return _handle_heartbeat(self, heartbeat._replace(sent_at=now), answer, now)


def confirms_before_applying(self: FleetSession, event: Event) -> Any:
    """Confirm an event when it is received."""
    step = _receive(self, event)
    self.confirmations.add(event.position.nonce, Unconfirmed(), OLD)
    return step


_SMALL = Bounds(ticks=3, heartbeats=1, lookups=0, reads=0)
_CHANGE = ("change", 0)
_BEATS = [tuple((action, index) for action in ("send", "take", "answer")) for index in (0, 1)]
_APPLIED = tuple((action, index) for index in (0, 1) for action in ("event", "carry out"))
PLANTED: Mapping[Fault, Bounds] = {
    Fault(ReplicaLog, "accepts", accepts_outdated_groups): replace(
        _SMALL, ticks=0, reads=1, begin=(("look up", 0), ("lookup ends", 0), _CHANGE)
    ),
    Fault(ReplicaLog, "fits", does_not_notice_missing_events): replace(
        _SMALL, changes=2, begin=(_CHANGE, *_APPLIED[:2], ("trim", 0), _CHANGE, *_APPLIED[:2])
    ),
    Fault(ReplicaLog, "renew_lease", extends_its_lease_behind_the_head): replace(
        _SMALL, begin=(_CHANGE,)
    ),
    Fault(ReplicaLog, "renew_lease", does_not_notice_lost_history): replace(
        _SMALL, begin=(_CHANGE, ("rewind", 0))
    ),
    Fault(ReplicaLog, "has_lost_events", forgets_the_order_that_it_lost): replace(
        _SMALL,
        reads=2,
        heartbeats=2,
        begin=(
            *(("look up", 0), ("lookup ends", 0), _CHANGE, *_APPLIED),
            *(_BEATS[1] + _BEATS[0]),
            *(("rewind", 0), ("tick", 0), ("tick", 0), ("tick", 0)),
        ),
    ),
    Fault(ReplicaLog, "follow", follows_histories_that_have_ended): replace(
        _SMALL,
        reads=1,
        heartbeats=6,
        restores=1,
        begin=(
            *(("look up", 0), ("lookup ends", 0), ("flush", 0)),
            *(_BEATS[0] * 2 + _BEATS[1] * 2),
            *(*(("tick", 0),) * 3, _CHANGE, *_APPLIED),
            *(_BEATS[1] + _BEATS[0] * 2),
        ),
    ),
    Fault(ReplicaLog, "missed", misses_nothing): replace(
        _SMALL, heartbeats=2, begin=(_CHANGE, *(("tick", 0),) * 3)
    ),
    Fault(FleetSession, "handle_heartbeat", takes_its_lease_from_the_answer): replace(
        _SMALL, begin=(("send", 1), ("take", 1), _CHANGE)
    ),
    Fault(FleetSession, "receive", confirms_before_applying): replace(
        _SMALL, ticks=0, begin=(_CHANGE,)
    ),
}
"""The bounds within which each is found, and the first steps, to find it soon."""


def knows_no_pending_changes(
    self: OrderFence, cursor: cursor_pb2.Cursor
) -> Sequence[StateChange] | None:
    """Judge the groups of a gate by the events that were applied only."""
    if self._unsent:
        return None
    return self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))


def judges_while_behind(
    self: OrderFence, cursor: cursor_pb2.Cursor
) -> Sequence[StateChange] | None:
    """Judge the groups of a gate while a change of this replica is not in Redis."""
    events = self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))
    if events is None:
        return None
    return [*events, *(each.invalidated for each in self._unapplied())]


@property  # type: ignore[misc]
def names_events_ahead(self: OrderFence) -> cursor_pb2.Cursor | None:
    """Name the newest event that is known to exist, though it has not been applied."""
    newest = self._log.newest
    return None if newest is None else newest.cursor


def takes_unknown_events_for_none(self: ReplicaLog, position: LogPosition) -> Sequence[StateChange]:
    """Let gates keep groups though not all events since are remembered."""
    return _since(self, position) or ()


def invalidates_nothing_that_is_kept(self: Session, kept: KeptGroups = NOTHING_KEPT) -> None:
    """Have a gate keep groups as they are."""
    _reset(self, KeptGroups(kept.partitions, ()))


def forgets_reloads(self: FleetSession, join: Join) -> bool:
    """Forget, on joining, a reload that is not finished."""
    self.unfinished_reloads = 0
    return _join(self, join)


def keeps_the_lease_of_another_server(
    self: GateSession, keep_groups_of: Collection[str] = ()
) -> None:
    """Decide from a server's state under the lease that another one granted."""
    lease_until = self.lease_until
    _gate_reset(self, keep_groups_of)
    self.lease_until = lease_until


_MOVE = moving_gates.Bounds()
PLANTED_FOR_GATES: Mapping[Fault, moving_gates.Bounds] = {
    Fault(OrderFence, "since", knows_no_pending_changes): _MOVE,
    Fault(OrderFence, "since", judges_while_behind): replace(
        _MOVE, isolations=1, begin=(("invalidate", 1), ("fail", 1))
    ),
    Fault(OrderFence, "cursor", names_events_ahead): replace(
        _MOVE,
        reloads=1,
        begin=(
            *(("invalidate", 1), ("append", 1), ("hear", 0), ("reload", 0)),
            *(("send", 0), ("send", 0), ("take", 0), ("take", 0)),
        ),
    ),
    Fault(ReplicaLog, "since", takes_unknown_events_for_none): replace(_MOVE, trims=1),
    Fault(Session, "_reset", invalidates_nothing_that_is_kept): _MOVE,
    Fault(FleetSession, "join", forgets_reloads): replace(
        _MOVE,
        invalidations=0,
        reloads=1,
        isolations=1,
        begin=(
            *(("reload", 0), ("append", 0), ("apply", 0), ("apply", 1)),
            *(("lose", 1), ("connect", 1)),
        ),
    ),
    Fault(GateSession, "reset", keeps_the_lease_of_another_server): replace(
        _MOVE, invalidations=0, reloads=1
    ),
}
"""The bounds within which each is found, by a gate that moves."""
