"""Counts and records the decisions of calls: from the bytes of messages to the decision log.

The response cache holds nothing but bytes; they are parsed only for records that are due.
"""

from collections.abc import Callable, Iterable, Sequence

from queuegate.v1 import sync_pb2
from queuegate_server.decisions.log import NUMBERS, AuditUnavailable, DecisionLog
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.decided_calls import AnsweredCall, FailedCall, ReportedDecisions
from queuegate_server.rpc.errors import UnreadableRequest, reason_name
from queuegate_server.rpc.messages import REASON_OF


class CallLog:
    """Counts the decisions of calls, and records those that are due."""

    def __init__(self, decisions: DecisionLog, wall: Callable[[], float]) -> None:
        """Use the log of decisions, and a wall clock in seconds."""
        self._decisions = decisions
        self._is_due = decisions.is_due
        self._counts = decisions.counts
        self._wall = wall

    async def decided(self, method: str, request: bytes, response: bytes, reason: int) -> None:
        """Count a single decision, and record it if it is due; raise AuditUnavailable."""
        if self._is_due[reason]:
            size = len(request) + len(response)
            await self._record(method, request, response, 1, checks=1, size=size)
        self._counts[reason] += 1

    async def failed(self, method: str, request: bytes, error: Exception) -> None:
        """Count and record a call that could not be decided; raise AuditUnavailable."""
        reason = reason_name(error)
        self._decisions.count_errors(reason)
        if not self._decisions.has_audit:
            return
        kept = None if isinstance(error, UnreadableRequest) else request
        call = FailedCall(method, self._wall(), current_caller(), kept, reason)
        try:
            await self._decisions.record(call.checks, 1, len(kept or b""))
        except AuditUnavailable as unavailable:
            raise unavailable from error

    def due(self, reasons: bytes) -> int:
        """Return how many decisions of a batch must be recorded, given the reason of each."""
        return self._decisions.due(reasons)

    async def decided_batch(
        self,
        method: str,
        request: bytes,
        response: bytes,
        reasons: bytes,
        errors: Iterable[str],
        *,
        size: int = 0,
    ) -> None:
        """Count the decisions of a batch, and record those that are due; raise AuditUnavailable.

        Args:
            method: The name of the method in the contract.
            request: The bytes of the request.
            response: The bytes of the response.
            reasons: The number of the reason of each check, as the log of decisions counts them.
            errors: Why checks failed, by the reason in the ErrorInfo in lower case.
            size: How many bytes the records take at least, if that is more than the messages.
        """
        if due := self.due(reasons):
            size = max(size, len(request) + len(response))
            await self._record(method, request, response, due, checks=len(reasons), size=size)
        self._decisions.count(reasons, errors)

    async def reported(
        self, name: str, decisions: Sequence[sync_pb2.LocalDecision], size: int
    ) -> None:
        """Count and record decisions that a gate made; raise AuditUnavailable.

        Args:
            name: The name of the gate's stream.
            decisions: The decisions, whose reasons exist.
            size: The size of the message, in bytes.
        """
        reasons = bytes(NUMBERS[REASON_OF[each.decision.reason]] for each in decisions)
        if due := self.due(reasons):
            report = ReportedDecisions(self._wall(), current_caller(), name, decisions)
            await self._decisions.record_report(report.checks, due, size)
        self._decisions.count(reasons, ())

    async def _record(
        self, method: str, request: bytes, response: bytes, due: int, *, checks: int, size: int
    ) -> None:
        """Record the decisions in the response to a call that are due; raise AuditUnavailable.

        All checks of the call count as errors then, because their answers are withheld.
        """
        call = AnsweredCall(method, self._wall(), current_caller(), request, response)
        try:
            await self._decisions.record(call.checks, due, size)
        except AuditUnavailable as withheld:
            self._decisions.count_errors(reason_name(withheld), checks)
            raise
