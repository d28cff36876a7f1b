"""Records the decisions that gates report, at the rate of their callers."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, MutableMapping
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
"""Seconds after which a report is recorded again that the audit log did not take."""
MAX_WAITING_BYTES: Final = 64 * MIB
"""Of the reports that wait, of all streams."""
DECISION_BYTES: Final = 512
"""What a decision of a report takes in addition to its bytes."""
LOG_INTERVAL: Final = 10.0
"""Seconds between two lines about the refused decisions of one caller."""
_RETRY_SECONDS: Final = 1.0
_LOG = logging.getLogger("queuegate_server.sync")


class ReportRecorder:
    """Takes the reports of all streams. Used from one event loop."""

    def __init__(
        self,
        audited: CallLog,
        rates: RateLimiter | None,
        counts: MutableMapping[str, int],
        clock: Callable[[], float],
    ) -> None:
        """Record nothing yet.

        Args:
            audited: Writes the records.
            rates: The rates of callers; None if they are not limited.
            counts: Where decisions are counted, as `recorded` or `refused`.
            clock: A monotonic clock, in seconds.
        """
        self._audited = audited
        self._rates = rates
        self._counts = counts
        self._waiting = ByteBudget(MAX_WAITING_BYTES)
        self._refusals = _RefusalLog(clock)

    def record(
        self,
        session: Session,
        report: sync_pb2.SyncReport,
        refused: list[sync_pb2.RefusedDecision],
        size: int,
    ) -> "asyncio.Task[sync_pb2.SyncReported]":
        """Begin to record the decisions of a report that are valid; return a task with the
        confirmation.

        All its decisions count against the rate of the caller, and the report waits until the
        caller has made up for those before.

        Args:
            session: The stream that it came on.
            report: The report.
            refused: Its decisions that are not valid.
            size: Its size in bytes.

        Raises:
            Overloaded: Too many reports wait.
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
        await self._take_turn(session.caller, len(report.decisions))
        if refused:
            self._refusals.note(session, refused)
        await self._write(session.name, _valid(report, refused), size)
        self._counts["recorded"] += len(report.decisions) - len(refused)
        self._counts["refused"] += len(refused)
        return sync_pb2.SyncReported(id=report.id, refused=refused)

    async def _take_turn(self, caller: str, decisions: int) -> None:
        if self._rates is None:
            return
        bucket = self._rates.reports[caller]
        while (delay := bucket.wait()) > 0:  # noqa: ASYNC110 - it is about time
            await asyncio.sleep(delay)
        bucket.charge(decisions)

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


class _RefusalLog:
    """Logs decisions that are not valid: for each caller at most a line each LOG_INTERVAL."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}
        """When the next line about a caller may be logged."""
        self._decisions: defaultdict[str, int] = defaultdict(int)
        """The decisions of callers since the last line about them."""

    def note(self, session: Session, refused: list[sync_pb2.RefusedDecision]) -> None:
        caller, now = session.caller, self._clock()
        self._decisions[caller] += len(refused)
        if now < self._next.get(caller, now):
            return
        self._next[caller] = now + LOG_INTERVAL
        fields = {
            "gate": session.name,
            "caller": caller,
            "decisions": self._decisions.pop(caller),
            "first": refused[0].fault,
        }
        _LOG.error("a gate reported invalid decisions, which are not recorded", extra=fields)


def _valid(
    report: sync_pb2.SyncReport, refused: list[sync_pb2.RefusedDecision]
) -> list[sync_pb2.LocalDecision]:
    faulty = {each.index for each in refused}
    return [each for index, each in enumerate(report.decisions) if index not in faulty]
