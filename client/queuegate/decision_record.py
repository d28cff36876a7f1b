"""The fields of a decision's record, which servers write to their audit logs and gates pass to
their programs.

docs/reference/audit-record.md explains each field.
"""

from datetime import UTC, datetime
from typing import Any, TypeAlias

from queuegate._types import Decision
from queuegate.policy import decision as core
from queuegate.policy.names import partition_name

Record: TypeAlias = dict[str, Any]
"""A record that can be serialized as JSON."""


def record_start(time: float, caller: str, method: str) -> Record:
    """Return the first fields of every record.

    Args:
        time: When the decision was made, in seconds since 1970.
        caller: The caller that asked the question.
        method: The contract method that answers the question.
    """
    moment = datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")
    return {"time": moment.replace("+00:00", "Z"), "caller": caller, "method": method}


def user_fields(user: str, partition: str, groups: int | None) -> Record:
    """Return the fields about a question's user.

    Args:
        user: The user.
        partition: The partition as named by the question.
        groups: The number of groups in the question; None if it does not give groups.
    """
    fields: Record = {"user": user, "partition": partition_name(partition)}
    return fields if groups is None else fields | {"groups_in_request": groups}


def queue_fields(queue: str, access: str) -> Record:
    """Return the fields about a question's queue and kind of access."""
    return {"queue": queue, "access": access}


def outcome_fields(decision: core.Decision | Decision, revision: int) -> Record:
    """Return the fields about a decision based on the given policy revision."""
    return {
        "decision": "allowed" if decision.allowed else "denied",
        "reason": str(decision.reason),
        "matched_queue": decision.matched_queue,
        "matched_name": decision.matched_subject,
        "revision": revision,
    }
