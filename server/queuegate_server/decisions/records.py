"""Audit records of decisions."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from queuegate.policy.decision import Decision

Record = dict[str, Any]


class Report(NamedTuple):
    """The gate that made and reported a decision."""

    gate: str
    received: float
    """When the report arrived, in wall-clock seconds of this server."""
    stale: bool
    """Whether the gate decided without a lease."""


class DecidedCheck(NamedTuple):
    """A decision about a question, or why there is none."""

    method: str
    time: float
    """When, in wall-clock seconds."""
    caller: str
    question: Record
    """The fields of the record that state the question; none if the request was not readable."""
    outcome: Decision | str
    """The decision, or the reason of the error."""
    revision: int = 0
    """The revision of the policy that decided."""
    report: Report | None = None

    def record(self) -> Record:
        """Return the record."""
        record: Record = {"time": _moment(self.time), "caller": self.caller, "method": self.method}
        record |= self.question
        outcome = self.outcome
        if isinstance(outcome, str):
            return record | {"decision": "error", "reason": outcome}
        record["decision"] = "allowed" if outcome.allowed else "denied"
        record["reason"] = str(outcome.reason)
        record["matched_queue"] = outcome.matched_queue
        record["matched_name"] = outcome.matched_subject
        record["revision"] = self.revision
        if self.report is not None:
            record["decided_by"] = self.report.gate
            record["received"] = _moment(self.report.received)
            if self.report.stale:
                record["stale"] = True
        return record


def _moment(time: float) -> str:
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    return moment.replace("+00:00", "Z")
