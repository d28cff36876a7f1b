"""Records decisions reported by gates, subject to the callers' rate limits."""

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
"""The maximum backoff, in seconds, before retrying a report refused by the audit log."""
MAX_WAITING_BYTES: Final = 64 * MIB
"""The maximum total size of pending reports."""
DECISION_BYTES: Final = 512
"""The memory overhead of a reported decision, in addition to its serialized size."""
LOG_INTERVAL: Final = 10.0
"""The minimum interval, in seconds, between log lines about one caller's refused decisions."""
_RETRY_SECONDS: Final = 1.0
_LOG = logging.getLogger("queuegate_server.sync")


@dataclass(slots=True, eq=False)
class ReportRecorder:
    """Records reports from all streams. Must be used from a single event loop."""

    _call_log: CallLog
    _rates: RateLimiter | None
    _counts: MutableMapping[str, int]
    """The number of `recorded` and `refused` decisions."""
    _clock: Callable[[], float]
    """A monotonic clock, in seconds."""
    _waiting: ByteBudget = field(default_factory=lambda: ByteBudget(MAX_WAITING_BYTES))
    _next_line: dict[str, float] = field(default_factory=dict)
    """When invalid decisions may be logged again, by caller."""
    _unlogged: Counter[str] = field(default_factory=Counter)
    """The number of invalid decisions not logged yet, by caller."""

    def record(
        self,
        session: Session,
        report: sync_pb2.SyncReport,
        refused: list[sync_pb2.RefusedDecision],
        size: int,
    ) -> "asyncio.Task[sync_pb2.SyncReported]":
        """Start recording a report's valid decisions; the task's result is the confirmation.

        Invalid decisions also count against the caller's rate limit and delay its next report.
        Raises Overloaded if too many reports are pending.

        Args:
            session: The session of the stream that sent the report.
            report: The report.
            refused: The report's invalid decisions.
            size: The report's size in bytes.
        """
        size += DECISION_BYTES * len(report.decisions)
        if self._waiting.is_spent:
            raise Overloaded("too many gate reports are waiting to be recorded", _RETRY_SECONDS)
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
            while (delay := bucket.wait()) > 0:  # noqa: ASYNC110 - waits for a time
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
                return await self._call_log.record_report(name, decisions, size)
            except AuditUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

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
