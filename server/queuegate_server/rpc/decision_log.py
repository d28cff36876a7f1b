"""Counts each decision, and writes those that are due to the audit log.

A decision is known by the number of its reason in the contract, which also says whether it was
allowed; ERROR stands for a check that could not be decided. Counting is an increment in a list,
because responses from the cache must cost next to nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from queuegate.v1 import access_pb2, sync_pb2
from queuegate_server.observe.audit import AuditLog
from queuegate_server.rpc import decision_records
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.errors import AuditUnavailable, UnreadableRequest, reason_name
from queuegate_server.rpc.messages import DENIED_REASONS, ERROR

_REASONS: Final = range(1, max(access_pb2.Reason.values()) + 1)


class DecisionLog:
    """Counts decisions, and records them if there is an audit log."""

    def __init__(
        self, audit: AuditLog | None = None, *, allowed: bool = False, wall: Callable[[], float]
    ) -> None:
        """Start with all counts at 0.

        Args:
            audit: The audit log, or None if there is none.
            allowed: Whether decisions that allow are recorded, too.
            wall: A wall clock, in seconds.
        """
        self._audit = audit
        self._records_allowed = allowed
        self._wall = wall
        self.counts = [0] * (len(_REASONS) + 1)
        """Decisions by the number of their reason."""
        self._is_due = tuple(
            audit is not None and (allowed or number == ERROR or number in DENIED_REASONS)
            for number in (ERROR, *_REASONS)
        )
        self._errors: Counter[str] = Counter()

    async def decided(self, method: str, request: bytes, response: bytes, reason: int) -> None:
        """Count a single decision, and record it if it is due; raise AuditUnavailable."""
        if self._is_due[reason]:
            await self._record(method, request, response, 1, 1)
        self.counts[reason] += 1

    async def failed(self, method: str, request: bytes, error: Exception) -> None:
        """Count and record a call that could not be decided; raise AuditUnavailable."""
        self.counts[ERROR] += 1
        self._errors[reason_name(error)] += 1
        if self._audit is not None:
            kept = None if isinstance(error, UnreadableRequest) else request
            failed = decision_records.Failed(
                method, self._wall(), current_caller(), kept, reason_name(error)
            )
            if not await self._audit.append(failed.records, 1, len(kept or b"")):
                raise AuditUnavailable from error

    def due(self, reasons: bytes) -> int:
        """Return how many decisions of a batch must be recorded, given the reason of each."""
        return sum(reasons.count(number) for number, is_due in enumerate(self._is_due) if is_due)

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
            reasons: The reason of each check.
            errors: Why checks failed, by the reason in the ErrorInfo in lower case.
            size: How many bytes the records take at least, if that is more than the messages.
        """
        if due := self.due(reasons):
            await self._record(method, request, response, due, len(reasons), size=size)
        self._count(reasons, errors)

    def _count(self, reasons: bytes, errors: Iterable[str]) -> None:
        for number in range(len(self.counts)):
            self.counts[number] += reasons.count(number)
        self._errors.update(errors)

    async def _record(
        self,
        method: str,
        request: bytes,
        response: bytes,
        due: int,
        checks: int,
        *,
        size: int = 0,
    ) -> None:
        """Record the decisions in the response to a call that are due; raise AuditUnavailable.

        All checks of the call count as errors then, because their answers are withheld.
        """
        if self._audit is None:
            return
        answered = decision_records.Answered(
            method,
            self._wall(),
            current_caller(),
            request,
            response,
            denials_only=not self._records_allowed,
        )
        size = max(size, len(request) + len(response))
        if not await self._audit.append(answered.records, due, size):
            withheld = AuditUnavailable()
            self.counts[ERROR] += checks
            self._errors[reason_name(withheld)] += checks
            raise withheld

    async def reported(
        self, name: str, decisions: Sequence[sync_pb2.LocalDecision], size: int
    ) -> None:
        """Count and record decisions that a caller made; raise AuditUnavailable, also if half of
        the buffer is full: the caller keeps its decisions, others have no other place for theirs.

        Args:
            name: The name of the caller's stream.
            decisions: The decisions, whose reasons exist.
            size: The size of the message, in bytes.
        """
        reasons = bytes(each.decision.reason for each in decisions)
        due = self.due(reasons)
        if due and self._audit is not None:
            if self._audit.is_half_full:
                raise AuditUnavailable
            made = decision_records.Reported(
                self._wall(),
                current_caller(),
                name,
                decisions,
                denials_only=not self._records_allowed,
            )
            if not await self._audit.append(made.records, due, size):
                raise AuditUnavailable
        self._count(reasons, ())

    def tallied(self) -> Iterator[tuple[str, str, int]]:
        """Yield outcome (allowed, denied, error), reason, and count."""
        for number in _REASONS:
            outcome = "denied" if number in DENIED_REASONS else "allowed"
            yield outcome, decision_records.REASON_NAMES[number], self.counts[number]
        for reason, count in self._errors.items():
            yield "error", reason, count
