"""Audit records of decisions."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from queuegate.policy.applications import Action
from queuegate.policy.decision import Access, Decision

Record = dict[str, Any]


class QueueQuestion(NamedTuple):
    """A question about a queue, as it was asked: it may have been refused."""

    user: str
    partition: str
    groups_in_request: int | None
    """None if it said nothing about groups; 0 if it said that the user has none."""
    queue: str
    access: Access | None
    """None if it was none of these."""


class ApplicationQuestion(NamedTuple):
    """A question about an application, likewise."""

    user: str
    partition: str
    groups_in_request: int | None
    queue: str
    """The application's queue."""
    action: Action | None
    owner: str
    target_queue: str


class Report(NamedTuple):
    """How a decision that a gate made came here."""

    gate: str
    received: float
    """When, in wall-clock seconds of this server."""
    stale: bool
    """Whether the gate decided without a lease."""


class DecidedCheck(NamedTuple):
    """A decision about a question, or why there is none."""

    method: str
    time: float
    """When, in wall-clock seconds."""
    caller: str
    question: QueueQuestion | ApplicationQuestion | None
    """None if the request was not readable."""
    outcome: Decision | str
    """The decision, or the reason of the error."""
    revision: int = 0
    """Of the policy that decided."""
    report: Report | None = None

    def record(self) -> Record:
        """Return the record."""
        record: Record = {"time": _moment(self.time), "caller": self.caller, "method": self.method}
        if self.question is not None:
            record |= _question(self.question)
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


def _question(question: QueueQuestion | ApplicationQuestion) -> Record:
    record: Record = {"user": question.user, "partition": question.partition}
    if question.groups_in_request is not None:
        record["groups_in_request"] = question.groups_in_request
    record["queue"] = question.queue
    if isinstance(question, QueueQuestion):
        record["access"] = "" if question.access is None else str(question.access)
    else:
        record["action"] = "" if question.action is None else str(question.action)
        record["owner"] = question.owner
        record["target_queue"] = question.target_queue
    return record


def _moment(time: float) -> str:
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    return moment.replace("+00:00", "Z")
