"""Records the decisions that gates report, at the rate of their callers."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from queuegate.v1 import sync_pb2
from queuegate_server.config_fields import MIB
from queuegate_server.decisions.log import AuditUnavailable
from queuegate_server.rpc.authorization import RateLimiter
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import Overloaded
from queuegate_server.sync.session import Session
from queuegate_server.throttling import ByteBudget

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds after which recording a report that the audit log refused is retried."""
MAX_WAITING_BYTES: Final = 64 * MIB
"""The maximum size of all reports that wait."""
DECISION_BYTES: Final = 512
"""The memory that a decision of a report takes in addition to its bytes."""
LOG_INTERVAL: Final = 10.0
"""Seconds between two lines about the refused decisions of one caller."""
_RETRY_SECONDS: Final = 1.0
_LOG = logging.getLogger("queuegate_server.sync")


@dataclass(slots=True, eq=False)
class ReportRecorder:
    """Takes the reports of all streams. Used from one event loop."""

    _audited: CallLog
    """Writes the records."""
    _rates: RateLimiter | None
    """The rates of callers, if they are limited."""
    _counts: MutableMapping[str, int]
    """Counts decisions, as `recorded` or `refused`."""
    _clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    _waiting: ByteBudget = field(default_factory=lambda: ByteBudget(MAX_WAITING_BYTES))
    _next_line: dict[str, float] = field(default_factory=dict)
    """When the next line about invalid decisions may be logged, by caller."""
    _unlogged: Counter[str] = field(default_factory=Counter)
    """Invalid decisions since the last line, by caller."""

    def record(
        self,
        session: Session,
        report: sync_pb2.SyncReport,
        refused: list[sync_pb2.RefusedDecision],
        size: int,
    ) -> "asyncio.Task[sync_pb2.SyncReported]":
        """Start recording the valid decisions of a report; return a task with the confirmation.

        All its decisions count against the caller's rate, and delay the caller's next report.
        Raises Overloaded if too many reports wait.

        Args:
            session: The stream that sent it.
            report: The report.
            refused: Its decisions that are not valid.
            size: Its size in bytes.
        """
        size += DECISION_BYTES * len(report.decisions)
        if self._waiting.is_spent:
            raise Overloaded("too many reports of gates are waiting to be recorded", _RETRY_SECONDS)
        self._waiting.take(size)
        recording = asyncio.create_task(self._record(session, report, refused, size))
        recording.add_done_callback(lambda _: self._waiting.give_back(size))
        return recording

    async def _record(
        self,
        session: Session,
        report: sync_pb2.SyncReport,
        refused: list[sync_pb2.RefusedDecision],
        size: int,
    ) -> sync_pb2.SyncReported:
        if self._rates is not None:
            bucket = self._rates.reports[session.caller]
            while (delay := bucket.wait()) > 0:  # noqa: ASYNC110 - it is about time
                await asyncio.sleep(delay)
            bucket.charge(len(report.decisions))
        if refused:
            self._log_refused(session, refused)
        faulty = {each.index for each in refused}
        valid = [each for index, each in enumerate(report.decisions) if index not in faulty]
        await self._write(session.name, valid, size)
        self._counts["recorded"] += len(report.decisions) - len(refused)
        self._counts["refused"] += len(refused)
        return sync_pb2.SyncReported(id=report.id, refused=refused)

    async def _write(self, name: str, decisions: list[sync_pb2.LocalDecision], size: int) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await self._audited.reported(name, decisions, size)
            except AuditUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

    def _log_refused(self, session: Session, refused: list[sync_pb2.RefusedDecision]) -> None:
        caller, now = session.caller, self._clock()
        self._unlogged[caller] += len(refused)
        if now < self._next_line.get(caller, now):
            return
        self._next_line[caller] = now + LOG_INTERVAL
        fields = {
            "gate": session.name,
            "caller": caller,
            "decisions": self._unlogged.pop(caller),
            "first": refused[0].fault,
        }
        _LOG.error("a gate reported invalid decisions, which are not recorded", extra=fields)
