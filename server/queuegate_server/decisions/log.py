"""Counts each decision, and writes those that are due to the audit log.

A decision is counted by the number of its reason, which also says whether it was allowed; ERROR
stands for a check that could not be decided. Counting is an increment in a list, because responses
from the cache must cost next to nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from queuegate.policy.decision import OUTCOMES, Reason
from queuegate_server.decisions.records import DecidedCheck, Record
from queuegate_server.observe.audit import AuditLog

ERROR: Final = 0
"""Stands for the reason of a check that could not be decided."""
NUMBERS: Final[Mapping[Reason, int]] = MappingProxyType(
    {reason: number for number, reason in enumerate(OUTCOMES, ERROR + 1)}
)
"""The numbers by which decisions are counted."""
GRANTS: Final = (False, *(outcome.grants for outcome in OUTCOMES.values()))
"""By number: whether access is granted."""


class AuditUnavailable(Exception):
    """The answer is withheld because its audit record cannot be written."""

    retry_after = 1.0

    def __init__(self) -> None:
        """Set the message."""
        super().__init__(
            "the decision is withheld because it cannot be written to the audit log; retry later"
        )


class DecisionLog:
    """Counts decisions, and records them if there is an audit log."""

    def __init__(self, audit: AuditLog | None = None, *, allowed: bool = False) -> None:
        """Start with all counts at 0.

        Args:
            audit: The audit log, or None if there is none.
            allowed: Whether decisions that allow are also recorded.
        """
        self._audit = audit
        self.counts = [0] * len(GRANTS)
        """Decisions by the number of their reason."""
        self.is_due = tuple(audit is not None and (allowed or not grants) for grants in GRANTS)
        """By number: whether a decision must be recorded."""
        self._errors: Counter[str] = Counter()

    @property
    def has_audit(self) -> bool:
        """Whether decisions are recorded."""
        return self._audit is not None

    def due(self, reasons: bytes) -> int:
        """Return how many decisions must be recorded, given the number of the reason of each."""
        return sum(reasons.count(number) for number, is_due in enumerate(self.is_due) if is_due)

    def count(self, reasons: bytes, errors: Iterable[str]) -> None:
        """Count decisions.

        Args:
            reasons: The number of the reason of each.
            errors: The reasons of those that are errors.
        """
        for number in range(len(self.counts)):
            self.counts[number] += reasons.count(number)
        self._errors.update(errors)

    def count_errors(self, reason: str, checks: int = 1) -> None:
        """Count checks that could not be decided, by the reason of their error."""
        self.counts[ERROR] += checks
        self._errors[reason] += checks

    async def record(
        self, checks: Callable[[], Iterable[DecidedCheck]], due: int, size: int
    ) -> None:
        """Record the decisions that are due.

        Args:
            checks: Returns all decisions; called in the thread that writes.
            due: How many of them are due.
            size: About how many bytes it holds until then.

        Raises:
            AuditUnavailable: The records may not have been written.
        """
        if self._audit is None:
            return
        if not await self._audit.append(lambda: self._records(checks()), due, size):
            raise AuditUnavailable

    async def record_report(
        self, checks: Callable[[], Iterable[DecidedCheck]], due: int, size: int
    ) -> None:
        """Record decisions that a gate reports, as `record` does. If half of the buffer is full,
        the gate must wait: it keeps its decisions, and others have no other place for theirs.
        """
        if self._audit is not None and self._audit.is_half_full:
            raise AuditUnavailable
        await self.record(checks, due, size)

    def tallied(self) -> Iterator[tuple[str, str, int]]:
        """Yield outcome (allowed, denied, error), reason, and count."""
        for reason, number in NUMBERS.items():
            outcome = "allowed" if OUTCOMES[reason].grants else "denied"
            yield outcome, str(reason), self.counts[number]
        for error, count in self._errors.items():
            yield "error", error, count

    def _records(self, checks: Iterable[DecidedCheck]) -> Iterator[Record]:
        for each in checks:
            outcome = each.outcome
            if isinstance(outcome, str) or self.is_due[NUMBERS[outcome.reason]]:
                yield each.record()
