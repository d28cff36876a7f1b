"""Counts decisions, and writes audit records.

Decisions are counted in a list indexed by reason number, so counting a cached response is cheap.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from queuegate.decision_record import Record, outcome_fields, record_start
from queuegate.policy.decision import OUTCOMES, Access, Decision, Reason
from queuegate.policy.reach import grant_of
from queuegate_server.engine import Snapshot
from queuegate_server.observe.audit import AuditLog

ERROR: Final = 0
"""The reason number for checks that failed with an error."""
NUMBERS: Final[Mapping[Reason, int]] = {
    reason: number for number, reason in enumerate(OUTCOMES, ERROR + 1)
}
GRANTS: Final = (False, *(outcome.grants for outcome in OUTCOMES.values()))
"""Whether access is granted, by reason number."""


class DecidedCheck(NamedTuple):
    """A completed check with its outcome, which is a decision or an error."""

    method: str
    time: float
    """When the check was made, in wall-clock seconds."""
    caller: str
    question: Record
    """The query's fields for the record; empty if the request could not be parsed."""
    outcome: Decision | str
    """The decision, or the reason for the error."""
    revision: int = 0
    """The policy revision on which the decision is based."""
    latest: Callable[[], Snapshot | None] = lambda: None
    """Returns the served policy. The record has the origins of a grant if the policy on which the
    decision is based has not been replaced. A record that waits to be written holds no policy,
    because many may wait while the policy changes."""

    def record(self) -> Record:
        """Return the audit record."""
        record = record_start(self.time, self.caller, self.method) | self.question
        if isinstance(self.outcome, str):
            return record | {"decision": "error", "reason": self.outcome}
        record |= outcome_fields(self.outcome, self.revision)
        origins = self._origins(self.outcome)
        return record | {"origins": [*origins]} if origins else record

    def _origins(self, decision: Decision) -> Sequence[str]:
        """Return the bindings that grant the access under Kubernetes' RBAC."""
        snapshot = self.latest()
        if snapshot is None or snapshot.policy.revision != self.revision or not decision.allowed:
            return ()
        served = snapshot.served.get(self.question.get("partition", ""))
        if served is None or served.partition.named_grants is None:
            return ()
        # RBAC's users have the name that has matched, and it is no proxy's.
        name = decision.matched_subject
        return grant_of(
            served.partition, self.question["queue"], Access.SUBMIT, decision, name
        ).origins


class AuditUnavailable(Exception):
    """Raised to withhold a response whose audit record cannot be written."""

    retry_after = 1.0

    def __init__(self) -> None:
        super().__init__(
            "the decision is withheld because it cannot be written to the audit log; retry later"
        )


class DecisionLog:
    """Counts decisions, and records them in the audit log, if any."""

    def __init__(
        self,
        audit: AuditLog | None = None,
        *,
        allowed: bool = False,
        latest: Callable[[], Snapshot | None] = lambda: None,
    ) -> None:
        """Start with all counts at 0.

        Args:
            audit: The audit log, if any.
            allowed: Whether to record grants as well as denials.
            latest: Returns the served policy, if any.
        """
        self.latest: Final = latest
        self._audit = audit
        self.has_audit: Final = audit is not None
        """Whether decisions are recorded."""
        self.counts = [0] * len(GRANTS)
        """The number of decisions by reason number."""
        self.is_due = tuple(audit is not None and (allowed or not grants) for grants in GRANTS)
        """Whether a decision must be recorded, by reason number."""
        self._errors: Counter[str] = Counter()

    def due(self, reasons: bytes) -> int:
        """Return how many decisions must be recorded, given the reason number of each."""
        return sum(reasons.count(number) for number, is_due in enumerate(self.is_due) if is_due)

    def count(self, reasons: bytes, errors: Iterable[str]) -> None:
        """Count decisions by reason number, and errors by reason."""
        for number in range(len(self.counts)):
            self.counts[number] += reasons.count(number)
        self._errors.update(errors)

    def count_errors(self, reason: str, checks: int = 1) -> None:
        """Count `checks` failed checks under the given error reason."""
        self.counts[ERROR] += checks
        self._errors[reason] += checks

    async def record(
        self, checks: Callable[[], Iterable[DecidedCheck]], due: int, size: int
    ) -> None:
        """Write audit records for the decisions that must be recorded.

        Args:
            checks: Returns the decisions, including any that need no record. Called in the writer
                thread.
            due: The number of decisions to record.
            size: The approximate memory held by `checks` until it is called, in bytes.

        Raises:
            AuditUnavailable: The records may not have been written.
        """
        if self._audit is not None and not await self._audit.append(
            lambda: self._records(checks()), due, size
        ):
            raise AuditUnavailable

    def tallied(self) -> Iterator[tuple[str, str, int]]:
        """Yield the count for each outcome (allowed, denied or error) and reason."""
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
