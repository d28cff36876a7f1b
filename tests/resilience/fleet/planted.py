"""Faults that someone could build into a fleet's protocol. A search must find each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from queuegate.v1 import cursor_pb2
from queuegate_server.fleet.events import Event
from queuegate_server.fleet.fence import OrderFence
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import LEASE, ReplicaLog
from queuegate_server.sync.event_log import StateChange
from queuegate_server.sync.session import NOTHING_KEPT, KeptGroups, Session
from tests.resilience.fleet import modelled_replica, moving_gates
from tests.resilience.fleet.world import Bounds, Parts
from tests.resilience.protocol.planted import KeepsTheLeaseOfAnotherServer


class AcceptsOutdatedGroups(ReplicaLog):
    """Takes the groups of other replicas without a look at the events since."""

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        return self.position is not None


class DoesNotNoticeMissingEvents(ReplicaLog):
    """Goes on with an event that does not follow the one before."""

    def fits(self, event: Event) -> bool:
        position = self.position
        return position is not None and event.position.sequence > position.sequence


class ExtendsItsLeaseBehindTheHead(ReplicaLog):
    """Takes the answer to a heartbeat for a lease, though there are events to apply."""

    def heartbeat_answered(self, head: LogPosition, known: LogPosition, sent_at: float) -> bool:
        fits = super().heartbeat_answered(head, known, sent_at)
        if fits:
            self.lease_until = max(self.lease_until, sent_at + LEASE)
        return fits


class DoesNotNoticeLostHistory(ReplicaLog):
    """Goes on when Redis has an earlier state."""

    def heartbeat_answered(self, head: LogPosition, known: LogPosition, sent_at: float) -> bool:
        if self.position is not None:
            self.lease_until = max(self.lease_until, sent_at + LEASE)
        return True


class ForgetsTheOrderThatItLost(ReplicaLog):
    """Follows a Redis that lacks events which it knew before its lease ended."""

    def has_lost_events(self, events: list[Event], head: LogPosition) -> bool:
        return False


class FollowsHistoriesThatHaveEnded(ReplicaLog):
    """Follows a Redis that was restored to a history before the newest."""

    def follow(self, events: list[Event], head: LogPosition, sent_at: float) -> None:
        super().follow(events, head, sent_at)
        self._abandoned_histories.clear()


class ForgetsNothingOnJoining(ReplicaLog):
    """Takes no event for missed."""

    def missed(self, events: list[Event], head: LogPosition) -> Sequence[Event]:
        return ()


class NoFence(Parts):
    log = AcceptsOutdatedGroups


class NoGap(Parts):
    log = DoesNotNoticeMissingEvents


class LeaseBehindTheHead(Parts):
    log = ExtendsItsLeaseBehindTheHead


class NoLoss(Parts):
    log = DoesNotNoticeLostHistory


class NoLossWhileAway(Parts):
    log = ForgetsTheOrderThatItLost


class NoEnd(Parts):
    log = FollowsHistoriesThatHaveEnded


class RejoinsWithOldGroups(Parts):
    log = ForgetsNothingOnJoining


class LeaseFromTheAnswer(Parts):
    lease_from_answer = True


class ConfirmsBeforeApplying(Parts):
    confirms_first = True


_SMALL = Bounds(ticks=3, heartbeats=1, lookups=0, reads=0)
_CHANGE = ("change", 0)
_BEATS = [tuple((action, index) for action in ("send", "take", "answer")) for index in (0, 1)]
PLANTED: Mapping[type[Parts], Bounds] = {
    NoFence: replace(_SMALL, ticks=0, reads=1, begin=(("look up", 0), ("lookup ends", 0), _CHANGE)),
    NoGap: replace(_SMALL, changes=2, begin=(_CHANGE, ("trim", 0), _CHANGE)),
    LeaseBehindTheHead: replace(_SMALL, begin=(_CHANGE,)),
    NoLoss: replace(_SMALL, begin=(_CHANGE, ("rewind", 0))),
    NoLossWhileAway: replace(
        _SMALL,
        reads=2,
        heartbeats=2,
        begin=(
            *(("look up", 0), ("lookup ends", 0), _CHANGE, ("event", 0), ("event", 1)),
            *(_BEATS[1] + _BEATS[0]),
            *(("rewind", 0), ("tick", 0), ("tick", 0), ("tick", 0)),
        ),
    ),
    NoEnd: replace(
        _SMALL,
        reads=1,
        heartbeats=6,
        restores=1,
        begin=(
            *(("look up", 0), ("lookup ends", 0), ("flush", 0)),
            *(_BEATS[0] * 2 + _BEATS[1] * 2),
            *(*(("tick", 0),) * 3, _CHANGE, ("event", 0), ("event", 1)),
            *(_BEATS[1] + _BEATS[0] * 2),
        ),
    ),
    RejoinsWithOldGroups: replace(_SMALL, heartbeats=2, begin=(_CHANGE, *(("tick", 0),) * 3)),
    LeaseFromTheAnswer: replace(_SMALL, begin=(("send", 1), ("take", 1), _CHANGE)),
    ConfirmsBeforeApplying: replace(_SMALL, ticks=0, begin=(_CHANGE,)),
}
"""The bounds within which each is found, and the first steps, to find it soon."""


class KnowsNoPendingChanges(OrderFence):
    """Judges the groups of a gate by the events that were applied only."""

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        if self._is_behind():
            return None
        return self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))


class JudgesWhileBehind(OrderFence):
    """Judges the groups of a gate while a change of its own is not in Redis."""

    def since(self, cursor: cursor_pb2.Cursor) -> Sequence[StateChange] | None:
        events = self._log.since(LogPosition.of_cursor(cursor.epoch, cursor.sequence))
        if events is None:
            return None
        return [*events, *(each.invalidated for each in self._unapplied())]


class NamesEventsAhead(OrderFence):
    """Names the newest event that is known to exist, though it has not been applied."""

    @property
    def cursor(self) -> cursor_pb2.Cursor | None:
        newest = self._log.newest
        return None if newest is None else newest.cursor


class TakesUnknownEventsForNone(ReplicaLog):
    """Lets gates keep groups though it does not remember all events since."""

    def since(self, position: LogPosition) -> Sequence[StateChange] | None:
        return super().since(position) or ()


class ForgetsNothingThatIsKept(Session):
    """Has a gate keep groups as they are."""

    def _reset(self, kept: KeptGroups = NOTHING_KEPT) -> None:
        super()._reset(KeptGroups(kept.partitions, ()))


class NoPendingChanges(modelled_replica.Parts):
    fence = KnowsNoPendingChanges


class BehindRedis(modelled_replica.Parts):
    fence = JudgesWhileBehind


class EventsAhead(modelled_replica.Parts):
    fence = NamesEventsAhead


class UnknownEvents(modelled_replica.Parts):
    log = TakesUnknownEventsForNone


class KeepsInvalidGroups(modelled_replica.Parts):
    session = ForgetsNothingThatIsKept


class ForgetsReloads(modelled_replica.Parts):
    forgets_reloads = True


class KeepsTheLease(modelled_replica.Parts):
    gate_session = KeepsTheLeaseOfAnotherServer


_MOVE = moving_gates.Bounds()
PLANTED_FOR_GATES: Mapping[type[modelled_replica.Parts], moving_gates.Bounds] = {
    NoPendingChanges: _MOVE,
    BehindRedis: replace(_MOVE, isolations=1, begin=(("invalidate", 1), ("fail", 1))),
    EventsAhead: replace(
        _MOVE,
        reloads=1,
        begin=(
            *(("invalidate", 1), ("append", 1), ("hear", 0), ("reload", 0)),
            *(("send", 0), ("send", 0), ("take", 0), ("take", 0)),
        ),
    ),
    UnknownEvents: replace(_MOVE, trims=1),
    KeepsInvalidGroups: _MOVE,
    ForgetsReloads: replace(
        _MOVE,
        invalidations=0,
        reloads=1,
        isolations=1,
        begin=(
            *(("reload", 0), ("append", 0), ("apply", 0), ("apply", 1)),
            *(("lose", 1), ("connect", 1)),
        ),
    ),
    KeepsTheLease: replace(_MOVE, invalidations=0, reloads=1),
}
"""The bounds within which each is found, by a gate that moves."""
