"""Counts the decisions about queues that objects name, and writes their audit records."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from queuegate_server.admission.queues.decider import INVALID_FIELD
from queuegate_server.admission.queues.model import (
    Obstacle,
    Outcome,
    QueueReview,
    RequiredCheck,
)
from queuegate_server.decisions.log import ERROR, NUMBERS, DecidedCheck, DecisionLog, Record

METHOD: Final = "AdmissionReview"
CALLER: Final = "webhook"
_RECORD_BYTES: Final = 512
"""The approximate size of an audit record."""
_MAX_TEXT: Final = 1_024
"""The maximum length of a text in an audit record."""


class QueueRecords:
    """Counts decisions in the webhook's metrics and in the decision log."""

    def __init__(
        self, decisions: DecisionLog, registry: CollectorRegistry, wall: Callable[[], float]
    ) -> None:
        """Register the metric.

        Args:
            decisions: Counts decisions and writes audit records.
            registry: The webhook's metrics.
            wall: A wall clock in seconds.
        """
        self._decisions = decisions
        self._wall = wall
        self._counter = Counter(
            "queuegate_admission_queue_decisions",
            "Decisions about the queues that objects name, by scheduler (places: one of"
            " admission.queues.schedulers.places; unqueued: the object names no queue; any: the"
            " object is too complex), outcome (allowed; denied; refused: the name cannot be that of"
            " a queue, or the object is too complex; error: the request fails) and mode: in warn"
            " mode, denied and refused objects are accepted.",
            ("scheduler", "outcome", "mode"),
            registry=registry,
        )

    async def record(
        self,
        review: QueueReview,
        obstacles: Sequence[Obstacle],
        outcomes: Sequence[Outcome],
        partition: str,
        revision: int,
        *,
        verified: bool,
    ) -> None:
        """Count decisions, and write the audit records that are due.

        Args:
            review: The request.
            obstacles: Reasons, other than an ACL, to refuse the object.
            outcomes: The decisions.
            partition: The partition's name.
            revision: The policy's revision.
            verified: Whether the caller presented a certificate that the settings accept.

        Raises:
            AuditUnavailable: The records cannot be written.
        """
        decisions = self._decisions
        numbers = bytes(
            ERROR if isinstance(outcome, str) else NUMBERS[outcome.reason]
            for _, outcome in outcomes
        ) + bytes([ERROR] * len(obstacles))
        if due := decisions.due(numbers):
            of_request = _request_fields(review, partition, verified=verified)
            now = self._wall()

            def checks() -> Iterator[DecidedCheck]:
                for check, outcome in outcomes:
                    fields = of_request | _check_fields(check)
                    yield DecidedCheck(METHOD, now, CALLER, fields, outcome, revision)
                for obstacle in obstacles:
                    fields = of_request | _obstacle_fields(obstacle)
                    yield DecidedCheck(METHOD, now, CALLER, fields, INVALID_FIELD)

            await decisions.record(checks, due, due * _RECORD_BYTES)
        errors = [outcome for _, outcome in outcomes if isinstance(outcome, str)]
        decisions.count(numbers, errors + [INVALID_FIELD] * len(obstacles))
        for check, outcome in outcomes:
            result = "error"
            if not isinstance(outcome, str):
                result = "allowed" if outcome.allowed else "denied"
            self._counter.labels(_label(check.scheduler), result, str(check.mode)).inc()
        for obstacle in obstacles:
            self._counter.labels(_label(obstacle.scheduler), "refused", str(obstacle.mode)).inc()


def _label(scheduler: str) -> str:
    """Return a scheduler's label: the number of an own place is left out."""
    return scheduler.partition("[")[0] or "any"


def question(
    review: QueueReview, check: RequiredCheck, partition: str, *, verified: bool
) -> Record:
    """Return the fields of an audit record that describe a check; see `QueueRecords.record`."""
    return _request_fields(review, partition, verified=verified) | _check_fields(check)


def _request_fields(review: QueueReview, partition: str, *, verified: bool) -> Record:
    kind = f"{review.kind}.{review.group}" if review.group else review.kind
    fields: Record = {
        "user": review.user[:_MAX_TEXT],
        "partition": partition,
        "object_kind": kind[:_MAX_TEXT],
        "object_namespace": review.namespace[:_MAX_TEXT],
        "object_name": review.name[:_MAX_TEXT],
    }
    if review.dry_run:
        fields["dry_run"] = True
    if not verified:
        fields["unverified"] = True
    return fields


def _check_fields(check: RequiredCheck) -> Record:
    return {
        "scheduler": check.scheduler,
        "mode": str(check.mode),
        "queue": check.path[:_MAX_TEXT],
        "access": str(check.access),
    }


def _obstacle_fields(obstacle: Obstacle) -> Record:
    return {"scheduler": obstacle.scheduler, "mode": str(obstacle.mode), "queue": ""}
