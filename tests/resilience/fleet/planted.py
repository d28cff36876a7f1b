"""Faults that someone could build into a fleet's protocol. A search must find each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from queuegate_server.fleet.events import Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.replica_log import LEASE, ReplicaLog
from tests.resilience.fleet.world import Bounds, Parts


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
    RejoinsWithOldGroups: replace(_SMALL, heartbeats=2, begin=(_CHANGE, *(("tick", 0),) * 3)),
    LeaseFromTheAnswer: replace(_SMALL, begin=(("send", 1), ("take", 1), _CHANGE)),
    ConfirmsBeforeApplying: replace(_SMALL, ticks=0, begin=(_CHANGE,)),
}
"""The bounds within which each is found, and the first steps, to find it soon."""
