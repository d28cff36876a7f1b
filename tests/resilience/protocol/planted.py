"""Faults that someone could build into the protocol. A search must find each."""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace

from queuegate.gate.session import GateSession
from queuegate.v1 import sync_pb2
from queuegate_server.sync.barrier import Barrier, Leases
from queuegate_server.sync.change_log import GateLog
from queuegate_server.sync.session import CLOCK_MARGIN, LEASE, Session
from tests.resilience.protocol.world import Bounds, Parts


class LeaseFromThePong(GateSession):
    """Counts the lease from when the pong arrives, as if the server had started it."""

    def receive(self, response: sync_pb2.SyncResponse, now: float) -> sync_pb2.SyncRequest | None:
        answer = super().receive(response, now)
        if response.HasField("pong"):
            self.lease_until = now + self._lease
        return answer


class ConfirmsBeforeApplying(GateSession):
    """Confirms what it has received, and applies it one message later."""

    def receive(self, response: sync_pb2.SyncResponse, now: float) -> sync_pb2.SyncRequest | None:
        late = self.__dict__.setdefault("late", deque())
        if response.WhichOneof("message") in ("policy", "forget"):
            late.append(response)
            return None
        answer = super().receive(response, now)
        if not response.HasField("checkpoint"):
            while late:
                super().receive(late.popleft(), now)
        return answer


class KeepsTheLeaseOfAnotherServer(GateSession):
    """Decides from a server's state under the lease that another one granted."""

    def reset(self, keep_groups_of: Collection[str] = ()) -> None:
        lease_until = self.lease_until
        super().reset(keep_groups_of)
        self.lease_until = lease_until


class AnswersPingsBeforeChanges(Session):
    """Grants leases ahead of the changes that wait to be sent."""

    def next_response(self) -> sync_pb2.SyncResponse | None:
        if self._ping is not None and self._position == self._log.head:
            waiting, self._changes = self._changes, deque()
            response = super().next_response()
            self._changes = waiting
            return response
        return super().next_response()


class TakesAllGatesForOne(Session):
    """Takes what one gate confirms for the confirmation of another one."""

    def _open(self, request: sync_pb2.SyncOpen) -> None:
        super()._open(request)
        self.instance = b"any"


class SendsOutdatedGroups(GateLog):
    """Does not notice that groups became invalid while they were looked up."""

    def is_valid(self, partition: str, user: str, since: int) -> bool:
        return True


class _NoMargin(Session):
    def next_response(self) -> sync_pb2.SyncResponse | None:
        before = self.lease_until
        response = super().next_response()
        if self.lease_until > before:
            self.lease_until -= CLOCK_MARGIN
        return response


class _ForgetsClosed(Leases):
    def remove(self, session: Session, now: float) -> None:
        super().remove(session, now)
        self._closed.clear()


class _ForgetsTheEarlierProcess(Leases):
    def __init__(self, now: float) -> None:
        super().__init__(now - LEASE - CLOCK_MARGIN)


class _StopsWithLeases(Leases):
    """Lets a server that drains end before the leases of its gates."""

    def last_end(self, now: float) -> float | None:
        return None


class _GoesOnAfterRelease(GateSession):
    """Says that it gives up its lease, and keeps deciding."""

    def release(self, now: float, *, closed: bool = False) -> sync_pb2.SyncRequest:
        lease_until = self.lease_until
        released = super().release(now, closed=closed)
        self.lease_until = lease_until
        return released


class _WaitsForTheOpenOnly(Leases):
    """Takes a stream that has applied nothing for one without a lease."""

    def barrier(self, sequence: int, now: float) -> Barrier:
        barrier = super().barrier(sequence, now)
        waiting = barrier._waiting
        barrier._waiting = [each for each in waiting if each.session and each.session.applied]
        return barrier


class LeaseFromThePongParts(Parts):
    gate_session = LeaseFromThePong


class ConfirmsBeforeApplyingParts(Parts):
    gate_session = ConfirmsBeforeApplying


class KeepsTheLeaseParts(Parts):
    gate_session = KeepsTheLeaseOfAnotherServer


class AnswersPingsFirstParts(Parts):
    session = AnswersPingsBeforeChanges


class TakesAllGatesForOneParts(Parts):
    session = TakesAllGatesForOne


class SendsOutdatedGroupsParts(Parts):
    log = SendsOutdatedGroups


class NoClockMarginParts(Parts):
    session = _NoMargin


class ForgetsClosedStreamsParts(Parts):
    leases = _ForgetsClosed


class ForgetsTheEarlierProcessParts(Parts):
    leases = _ForgetsTheEarlierProcess


class StopsWithLeasesParts(Parts):
    leases = _StopsWithLeases


class GoesOnAfterReleaseParts(Parts):
    gate_session = _GoesOnAfterRelease


class WaitsForTheOpenOnlyParts(Parts):
    leases = _WaitsForTheOpenOnly


_ONE_GATE = Bounds(gates=1, ticks=3, connects=1, wants=0, invalidations=0, restarts=0)
PLANTED: Mapping[type[Parts], Bounds] = {
    LeaseFromThePongParts: _ONE_GATE,
    ConfirmsBeforeApplyingParts: _ONE_GATE,
    KeepsTheLeaseParts: replace(_ONE_GATE, fail_overs=1, pings=1, ticks=1),
    AnswersPingsFirstParts: replace(_ONE_GATE, invalidations=1),
    SendsOutdatedGroupsParts: replace(
        _ONE_GATE, policy_changes=0, invalidations=1, wants=1, pings=1, connects=0, ticks=2
    ),
    TakesAllGatesForOneParts: replace(_ONE_GATE, gates=2, ticks=1, pings=1),
    NoClockMarginParts: _ONE_GATE,
    ForgetsClosedStreamsParts: _ONE_GATE,
    ForgetsTheEarlierProcessParts: replace(_ONE_GATE, restarts=1),
    WaitsForTheOpenOnlyParts: _ONE_GATE,
    StopsWithLeasesParts: replace(_ONE_GATE, drains=1),
    GoesOnAfterReleaseParts: replace(_ONE_GATE, drains=1),
}
"""The bounds within which each is found."""
