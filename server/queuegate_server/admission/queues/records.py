"""Counts the decisions about names of queues, and writes their audit records."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from queuegate.policy.decision import Decision
from queuegate_server.admission.queues.model import Outcome, QueueReview, RequiredCheck
from queuegate_server.decisions.log import NUMBERS, DecidedCheck, DecisionLog, Record

METHOD: Final = "AdmissionReview"
_RECORD_BYTES: Final = 512
"""The approximate size of an audit record."""
_MAX_NAME: Final = 1_024


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
            " admission.queues.schedulers.places; unqueued: the object names no queue), outcome"
            " (allowed; denied; refused: the name cannot be that of a queue, or the object is too"
            " complex; error) and mode: in warn mode, denied and refused objects are accepted.",
            ("scheduler", "outcome", "mode"),
            registry=registry,
        )

    def count(self, scheduler: str, outcome: str, mode: str) -> None:
        """Count one decision in the webhook's metrics."""
        self._counter.labels(scheduler.partition("[")[0] or "any", outcome, mode).inc()

    async def record(
        self,
        review: QueueReview,
        outcomes: Sequence[Outcome],
        partition: str,
        revision: int,
        *,
        verified: bool,
    ) -> None:
        """Count decisions, and write the audit records that are due.

        Args:
            review: The request.
            outcomes: The decisions.
            partition: The partition's name.
            revision: The policy's revision.
            verified: Whether the caller presented a certificate of a trusted CA.

        Raises:
            AuditUnavailable: The records cannot be written.
        """
        numbers = bytes(
            0 if isinstance(outcome, str) else NUMBERS[outcome.reason] for _, outcome in outcomes
        )
        if due := self._decisions.due(numbers):
            now = self._wall()
            caller = "webhook:verified" if verified else "webhook:unverified"

            def checks() -> Iterator[DecidedCheck]:
                for check, outcome in outcomes:
                    fields = _fields(review, check, partition)
                    yield DecidedCheck(METHOD, now, caller, fields, outcome, revision)

            await self._decisions.record(checks, due, due * _RECORD_BYTES)
        errors = [outcome for _, outcome in outcomes if isinstance(outcome, str)]
        self._decisions.count(numbers, errors)
        for check, outcome in outcomes:
            result = "error" if isinstance(outcome, str) else _result(outcome)
            self.count(check.scheduler, result, str(check.mode))


def _result(decision: Decision) -> str:
    return "allowed" if decision.allowed else "denied"


def _fields(review: QueueReview, check: RequiredCheck, partition: str) -> Record:
    kind = f"{review.kind}.{review.group}" if review.group else review.kind
    return {
        "user": review.user[:_MAX_NAME],
        "partition": partition,
        "queue": check.path[:_MAX_NAME],
        "access": str(check.access),
        "scheduler": check.scheduler,
        "mode": str(check.mode),
        "object_kind": kind[:_MAX_NAME],
        "object_namespace": review.namespace[:_MAX_NAME],
        "object_name": review.name[:_MAX_NAME],
    }
