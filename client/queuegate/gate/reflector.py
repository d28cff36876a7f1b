"""Both gates' work around the protocol: when to ping, what to ask for, when to connect again."""

import logging
import math
import os
import random
import socket
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum, auto
from typing import Final

from queuegate import _validation
from queuegate._settings import FilePath
from queuegate._types import Decision
from queuegate.gate.decider import Decider, Question
from queuegate.gate.outbox import Outbox, Segment
from queuegate.gate.replica import LocalReplica
from queuegate.gate.session import Session, clock
from queuegate.policy.decision import Access
from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2, sync_pb2

MAX_WANTED: Final = 1_000
"""Users in one message."""
MAX_WAITING: Final = 10_000
"""Users that wait to be asked for."""
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
"""Seconds before a stream is opened again."""
RELEASE_SECONDS: Final = 0.5
"""How long a gate that is closed waits until the server knows that its lease has ended."""
SILENCE: Final = 3.0
"""After as many seconds without a message a stream is taken for dead, before the lease ends."""
_UNREACHABLE: Final = frozenset({"UNAVAILABLE", "CANCELLED"})
"""Statuses of a stream whose server is gone, or was silent."""
_REFUSALS: Final = frozenset({"PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"})


_LOG: Final = logging.getLogger("queuegate.gate")


class GateState(StrEnum):
    """Whether a gate decides by itself."""

    CONNECTING = auto()
    """It has no policy yet: the server is asked."""
    LIVE = auto()
    """It decides."""
    EXPIRED = auto()
    """Its lease has ended: the server is asked, or old state is used if `stale` allows it."""
    FORBIDDEN = auto()
    """The server does not let it decide, or demands reports and there is no outbox."""
    CLOSED = auto()
    """It is closed, or this process is a fork of the one that made it."""


class Reflector:
    """Keeps a gate's copy of the server's state current. Thread-safe."""

    def __init__(
        self,
        name: str,
        partitions: Iterable[str],
        *,
        stale: float,
        outbox: FilePath | None,
        on_change: Callable[[], None] | None,
        wake: Callable[[], None],
    ) -> None:
        """Start without a stream.

        Args:
            name: The name of the gate on the server; empty: the host and the process.
            partitions: The partitions to follow; none: all.
            stale: Seconds for which old state decides while the server cannot be reached.
            outbox: The folder that keeps decisions until they are reported; None if there is none.
            on_change: Called when another policy decides.
            wake: Called when there is something to send, by the thread that asks.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument is invalid.
            OSError: The outbox cannot be used.
        """
        name = _validation.text("name", name, required=False)
        name = name or f"{socket.gethostname()}/{os.getpid()}"
        self._stale = _validation.seconds("stale", stale) if stale else 0.0
        self._outbox = None if outbox is None else Outbox(outbox)
        named = _validation.texts("partitions", partitions)
        self.replica = LocalReplica(is_complete=not named)
        self.session = Session(self.replica, name, named)
        report = None if outbox is None else self._report
        self.decider = Decider(self.replica, self.session, self._want, report)
        self.is_closed = False
        self.resets = 0
        """How often the server made this gate drop its state."""
        self._on_change = on_change
        self._wake = wake
        self._lock = threading.Lock()
        self._wanted: dict[tuple[str, str], None] = {}
        self._segment: Segment | None = None
        self._unreported: deque[sync_pb2.SyncReport] = deque()
        """The reports of the segment; the first one has been sent."""
        self._last_report = 0
        self._next_ping = 0.0
        self._last_message = 0.0
        self._pause = FIRST_PAUSE
        self._last_end = ("", "")
        _REFLECTORS.add(self)

    @property
    def state(self) -> GateState:
        """Whether the gate decides by itself."""
        if self.is_closed:
            return GateState.CLOSED
        if not self.replica.state.policies:
            return GateState.CONNECTING
        if not self.session.local_decisions:
            return GateState.FORBIDDEN
        if self.session.report_decisions and self._outbox is None:
            return GateState.FORBIDDEN
        return GateState.LIVE if clock() < self.session.lease_until else GateState.EXPIRED

    def opened(self) -> sync_pb2.SyncRequest:
        """Return the first message of a new stream."""
        with self._lock:
            self._wanted.clear()
            self._segment = None
            self._unreported.clear()
            self._last_message = clock()
            self._next_ping = 0.0
            return self.session.open()

    def due(self) -> list[sync_pb2.SyncRequest]:
        """Return the messages to send now, besides answers."""
        now = clock()
        requests: list[sync_pb2.SyncRequest] = []
        with self._lock:
            if now >= self._next_ping:
                self._next_ping = now + self.session.ping_interval
                requests.append(self.session.ping(now))
            wanted: dict[str, list[str]] = {}
            room = min(MAX_WANTED, MAX_WAITING - self.session.waiting)
            for _ in range(min(len(self._wanted), room)):
                (partition, user), _ = self._wanted.popitem()
                wanted.setdefault(partition, []).append(user)
            requests += [self.session.want(name, users, now) for name, users in wanted.items()]
        if self._outbox is not None and self.session.report_decisions:
            requests += self._due_reports(self._outbox)
        return requests

    @property
    def is_dead(self) -> bool:
        """Whether the server has been silent for too long, although it was pinged."""
        return clock() - self._last_message > SILENCE

    @property
    def idle_seconds(self) -> float:
        """How long nothing needs to be sent, unless `wake` is called."""
        return max(0.0, self._next_ping - clock())

    def receive(self, response: sync_pb2.SyncResponse) -> sync_pb2.SyncRequest | None:
        """Apply a message of the server and return the answer, if it needs one.

        Raises ValueError for a message that breaks the protocol.
        """
        with self._lock:
            now = self._last_message = clock()
            if response.HasField("opened"):
                self.decider.grace = 0.0
                self.resets += not response.opened.resumed
            elif response.HasField("pong"):
                self._pause = FIRST_PAUSE
            answer = self.session.receive(response, now)
            has_changed, self.replica.has_changed = self.replica.has_changed, False
        if has_changed and self._on_change is not None:
            try:
                self._on_change()
            except Exception:
                _LOG.exception("on_change of a gate has failed")
        if response.HasField("reported"):
            for refused in response.reported.refused:
                _LOG.error("the server refuses the report of a decision: %s", refused.fault)
            self._wake()
        return answer

    def ended(self, code: str, message: str = "") -> float:
        """Note that the stream has ended with a status; return the seconds until the next one."""
        if (code, message) != self._last_end and not self.is_closed:
            self._last_end = (code, message)
            _LOG.warning("the stream of a gate has ended: %s %s", code, message)
        if code in _REFUSALS:
            with self._lock:
                self.session.end()
        self.decider.grace = self._stale if code in _UNREACHABLE else 0.0
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret

    def close(self) -> None:
        """Decide nothing any more."""
        self.is_closed = True
        with self._lock:
            self.session.end()
        if self._outbox is not None:
            self._outbox.close()

    def released(self) -> sync_pb2.SyncRequest:
        """Return the last message of the stream of a gate that is closed."""
        with self._lock:
            return self.session.release(clock())

    def abandon(self) -> None:
        """Decide nothing in a fork of the process: nobody there hears the server. Takes no lock,
        which a thread of the parent may hold.
        """
        self.is_closed = True
        self.session.lease_until = -math.inf

    def _want(self, partition: str, user: str) -> None:
        """Ask for the groups of a user with the next messages."""
        if len(self._wanted) >= MAX_WAITING or (partition, user) in self._wanted:
            return
        if not self.session.is_wanted(partition, user, clock()):
            self._wanted[partition, user] = None
            self._wake()

    def _report(self, question: Question, decision: Decision) -> bool:
        """Put a decision into the outbox; return False if it has no room."""
        user, queue, partition, access, groups, real_user = question
        record = sync_pb2.LocalDecision(
            user=user,
            partition=partition_name(partition),
            queue=queue,
            access=_ACCESS[Access(access)],
            real_user=real_user,
            groups_in_request=len(tuple(groups)),
            decision=access_pb2.CheckQueueAccessResponse(
                allowed=decision.allowed,
                reason=access_pb2.Reason.Value(f"REASON_{decision.reason.name}"),
                matched_queue=decision.matched_queue,
                matched_subject=decision.matched_subject,
                policy_revision=decision.policy_revision,
            ),
            stale=decision.stale,
        )
        record.time.GetCurrentTime()
        return self._outbox is not None and self._outbox.append(record)

    def _due_reports(self, outbox: Outbox) -> list[sync_pb2.SyncRequest]:
        """Return the next report once the one before it is confirmed."""
        if self._unreported and self.session.reported >= self._unreported[0].id:
            self._unreported.popleft()
        elif self._unreported:
            return []
        if not self._unreported:
            try:
                if self._segment is not None:
                    outbox.remove(self._segment)
                    self._segment = None
                oldest = outbox.oldest()
            except OSError:
                _LOG.exception("the outbox of a gate cannot be read")
                return []
            if oldest is None:
                return []
            self._segment, groups = oldest
            for group in groups:
                self._last_report += 1
                self._unreported.append(sync_pb2.SyncReport(id=self._last_report, decisions=group))
        return [sync_pb2.SyncRequest(report=each) for each in [*self._unreported][:1]]


_ACCESS: Final = {
    Access.SUBMIT: access_pb2.ACCESS_TYPE_SUBMIT,
    Access.ADMIN: access_pb2.ACCESS_TYPE_ADMIN,
}
_REFLECTORS: "weakref.WeakSet[Reflector]" = weakref.WeakSet()


def _abandon_all() -> None:
    for each in _REFLECTORS:
        each.abandon()


os.register_at_fork(after_in_child=_abandon_all)
