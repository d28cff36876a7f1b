"""Builds records of local decisions, and reports of an outbox's records, one at a time."""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Final

from queuegate._types import Decision
from queuegate.gate.decider import Question
from queuegate.gate.outbox import Outbox, Segment
from queuegate.policy.decision import Access
from queuegate.policy.names import partition_name
from queuegate.v1 import access_pb2, sync_pb2

MAX_REPORTED: Final = 1_000
"""The maximum number of decisions in a report."""
_ACCESS: Final = {
    Access.SUBMIT: access_pb2.ACCESS_TYPE_SUBMIT,
    Access.ADMIN: access_pb2.ACCESS_TYPE_ADMIN,
}


def decision_record(question: Question, decision: Decision) -> sync_pb2.LocalDecision:
    """Return the record of a decision made now, for the server's audit log."""
    user, queue, partition, access, groups, real_user = question
    given = None if groups is None else tuple(groups)
    record = sync_pb2.LocalDecision(
        user=user,
        partition=partition_name(partition),
        queue=queue,
        access=_ACCESS[Access(access)],
        real_user=real_user,
        groups_in_request=len(given or ()),
        no_groups=given == (),
        decision=access_pb2.CheckQueueAccessResponse(
            allowed=decision.allowed,
            reason=access_pb2.Reason.Value(f"REASON_{decision.reason.name}"),
            matched_queue=decision.matched_queue,
            matched_subject=decision.matched_subject,
            policy_revision=decision.policy_revision,
            evaluated_queue=decision.evaluated_queue,
        ),
        stale=decision.stale,
    )
    record.time.GetCurrentTime()
    return record


class Reporter:
    """Tracks which decisions have been sent and confirmed. Thread-safe.

    Decisions rejected by the server are moved to the outbox's `rejected` file. A report that closes
    the stream is split to isolate the faulty decision. All other decisions are delivered at least
    once.
    """

    def __init__(self, outbox: Outbox) -> None:
        """Create a reporter for an outbox."""
        self._outbox = outbox
        self._lock = threading.Lock()
        self._stream = 0
        self._segment: Segment | None = None
        self._groups: deque[list[sync_pb2.LocalDecision]] = deque()
        """The segment's unconfirmed decisions in order, grouped by report."""
        self._in_flight = 0
        """The ID of the report that contains the first group; 0 if that group has not been sent on
        the current stream.
        """
        self._last = 0

    def restart(self, stream: int) -> None:
        """Switch to a new stream, on which all unconfirmed decisions are sent again."""
        with self._lock:
            self._stream = stream
            self._in_flight = 0

    def next(self, stream: int, reported: sync_pb2.SyncReported) -> sync_pb2.SyncReport | None:
        """Return the next report.

        Args:
            stream: The number of the stream on which to send the report.
            reported: The server's last confirmation.

        Returns:
            The report; None if there are no decisions to report, a report is unconfirmed, or
            another stream is in use.
        """
        with self._lock:
            if stream != self._stream:
                return None
            if self._in_flight and reported.id == self._in_flight:
                self._set_aside(reported.refused)
                self._drop_group()
            if self._in_flight:
                return None
            if not self._groups:
                oldest = self._outbox.oldest()
                if oldest is None:
                    return None
                self._segment, decisions = oldest
                self._groups.extend(
                    decisions[start : start + MAX_REPORTED]
                    for start in range(0, len(decisions), MAX_REPORTED)
                )
            self._last += 1
            self._in_flight = self._last
            return sync_pb2.SyncReport(id=self._last, decisions=self._groups[0])

    def split(self, why: str) -> None:
        """Split the report that closed the stream. If it contains a single decision, reject that
        decision.

        Args:
            why: Why the stream was closed.
        """
        with self._lock:
            if not self._in_flight:
                return
            group = self._groups[0]
            if len(group) == 1:
                self._outbox.reject(group, why)
                self._drop_group()
                return
            self._in_flight = 0
            self._groups[0] = group[len(group) // 2 :]
            self._groups.appendleft(group[: len(group) // 2])

    def _set_aside(self, refused: Iterable[sync_pb2.RefusedDecision]) -> None:
        """Move rejected decisions to the outbox's `rejected` file, and count all others as
        confirmed.
        """
        group = self._groups[0]
        faults = {each.index: each.fault for each in refused if each.index < len(group)}
        if faults:
            self._outbox.reject([group[index] for index in faults], next(iter(faults.values())))
        self._outbox.confirmed += len(group) - len(faults)

    def _drop_group(self) -> None:
        self._in_flight = 0
        self._groups.popleft()
        if not self._groups and self._segment is not None:
            self._outbox.remove(self._segment)
            self._segment = None
