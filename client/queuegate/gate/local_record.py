"""Records of local decisions, which a gate passes to its own program."""

import json
import logging
from typing import Final

from queuegate._types import Decision
from queuegate.decision_record import (
    Record,
    outcome_fields,
    queue_fields,
    record_start,
    user_fields,
)
from queuegate.gate.decider import Question

_LOG: Final = logging.getLogger("queuegate.decisions")


def local_record(time: float, gate: str, question: Question, decision: Decision) -> Record:
    """Return the record of a gate's decision.

    Args:
        time: When the decision was made, in seconds since 1970.
        gate: The gate's name on the server.
        question: The question.
        decision: The decision.
    """
    user, queue, partition, access, groups, _ = question
    record = record_start(time, f"gate:{gate}", "CheckQueueAccess")
    record |= user_fields(user, partition, None if groups is None else len(tuple(groups)))
    record |= queue_fields(queue, str(access))
    record |= outcome_fields(decision, decision.policy_revision)
    return record | {"stale": True} if decision.stale else record


def log_decision(record: Record) -> None:
    """Log a gate's decision as JSON, at level INFO, to the `queuegate.decisions` logger. Pass this
    function as a gate's `on_decision`.
    """
    if _LOG.isEnabledFor(logging.INFO):
        _LOG.info("%s", json.dumps(record, separators=(",", ":")))
