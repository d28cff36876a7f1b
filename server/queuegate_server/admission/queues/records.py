"""Counts the decisions about queues that objects name, and writes their audit records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from queuegate.decision_record import Record
from queuegate_server.admission.queues.model import (
    Obstacle,
    Outcome,
    QueueReview,
    RequiredCheck,
)
from queuegate_server.admission.queues.places import checked_schedulers
from queuegate_server.admission.queues.review_decider import INVALID_FIELD, CannotDecide
from queuegate_server.decisions.log import (
    ERROR,
    NUMBERS,
    AuditUnavailable,
    DecidedCheck,
    DecisionLog,
)
from queuegate_server.fleet.view import QueueDecisions
from queuegate_server.observe.metric_families import registered
from queuegate_server.settings.admission import Admission
from queuegate_server.settings.queue_schedulers import Mode

METHOD: Final = "AdmissionReview"
CALLER: Final = "webhook"
QUESTIONS: Final = "authorize"
"""A placeholder for the scheduler in answers to `kubectl auth can-i`."""
_RECORD_BYTES: Final = 512
"""The approximate size of an audit record."""
_DENIALS: Final = frozenset({"denied", "refused"})
_MAX_TEXT: Final = 1_024
"""The maximum length of a string in an audit record."""


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
        self._counter = registered(Counter, "queuegate_admission_queue_decisions", registry)

    async def record(
        self,
        method: str,
        of_request: Record,
        outcomes: Sequence[Outcome],
        revision: int,
        obstacles: Sequence[Obstacle] = (),
    ) -> None:
        """Count decisions, and write the audit records that are due.

        Args:
            method: The kind of the request.
            of_request: The fields of audit records that describe the request.
            outcomes: The decisions.
            revision: The policy's revision.
            obstacles: Reasons, other than an ACL, to refuse the object.

        Raises:
            CannotDecide: The records cannot be written.
        """
        decisions = self._decisions
        numbers = bytes(
            ERROR if isinstance(outcome, str) else NUMBERS[outcome.reason]
            for _, outcome in outcomes
        ) + bytes([ERROR] * len(obstacles))
        if due := decisions.due(numbers):
            now, latest = self._wall(), decisions.latest

            def checks() -> Iterator[DecidedCheck]:
                for check, outcome in outcomes:
                    fields = of_request | check_fields(check)
                    yield DecidedCheck(method, now, CALLER, fields, outcome, revision, latest)
                for obstacle in obstacles:
                    fields = of_request | _obstacle_fields(obstacle)
                    yield DecidedCheck(method, now, CALLER, fields, INVALID_FIELD)

            try:
                await decisions.record(checks, due, due * _RECORD_BYTES)
            except AuditUnavailable as error:
                raise CannotDecide(str(error)) from None
        errors = [outcome for _, outcome in outcomes if isinstance(outcome, str)]
        decisions.count(numbers, errors + [INVALID_FIELD] * len(obstacles))
        for check, outcome in outcomes:
            result = "error"
            if not isinstance(outcome, str):
                result = "allowed" if outcome.allowed else "denied"
            self._counter.labels(_label(check.scheduler), result, str(check.mode)).inc()
        for obstacle in obstacles:
            self._counter.labels(_label(obstacle.scheduler), "refused", str(obstacle.mode)).inc()

    def by_scheduler(self, settings: Admission) -> list[QueueDecisions]:
        """Return the decisions about each scheduler that is checked now or was checked before, and
        about questions to /authorize if `admission.authorize` is set or any have arrived.
        """
        queues = settings.queues
        modes: dict[str, list[str]] = {}
        for name, mode in () if queues is None else checked_schedulers(queues):
            of_scheduler = modes.setdefault(_label(name), [])
            if mode not in of_scheduler:
                of_scheduler.append(mode)
        if settings.authorize is not None:
            modes[QUESTIONS] = []
        counts = {
            (each.labels["scheduler"], each.labels["outcome"], each.labels["mode"]): int(each.value)
            for family in self._counter.collect()
            for each in family.samples
            if each.name.endswith("_total")
        }
        names = dict.fromkeys((*modes, *sorted(name for name, _, _ in counts)))
        return [_row(name, ", ".join(modes.get(name, ())), counts) for name in names]


def _row(name: str, mode: str, counts: Mapping[tuple[str, str, str], int]) -> QueueDecisions:
    of_scheduler = [(key, count) for key, count in counts.items() if key[0] == name]

    def total(outcomes: frozenset[str], *modes: Mode) -> int:
        return sum(
            count
            for (_, outcome, mode), count in of_scheduler
            if outcome in outcomes and (not modes or mode in modes)
        )

    return QueueDecisions(
        name,
        mode,
        allowed=total(frozenset({"allowed"})),
        denied=total(_DENIALS, Mode.DENY, Mode.OFF),
        warned=total(_DENIALS, Mode.WARN),
        failed=total(frozenset({"error"})),
    )


def _label(scheduler: str) -> str:
    """Return a scheduler's label, without the number of a custom place."""
    return scheduler.partition("[")[0] or "any"


def user_fields(user: str, partition: str) -> Record:
    """Return the fields of an audit record for a user, and for a partition's name."""
    return {"user": user[:_MAX_TEXT], "partition": partition}


def review_fields(review: QueueReview, partition: str, *, verified: bool) -> Record:
    """Return the fields of an audit record that describe a request.

    Args:
        review: The request.
        partition: The partition's name.
        verified: Whether the caller presented a certificate that the settings accept.
    """
    kind = f"{review.kind}.{review.group}" if review.group else review.kind
    fields = user_fields(review.user, partition) | {
        "object_kind": kind[:_MAX_TEXT],
        "object_namespace": review.namespace[:_MAX_TEXT],
        "object_name": review.name[:_MAX_TEXT],
    }
    if review.dry_run:
        fields["dry_run"] = True
    if not verified:
        fields["unverified"] = True
    return fields


def check_fields(check: RequiredCheck) -> Record:
    """Return the fields of an audit record that describe a check."""
    return {
        "scheduler": check.scheduler,
        "mode": str(check.mode),
        "queue": check.path[:_MAX_TEXT],
        "access": str(check.access),
    }


def _obstacle_fields(obstacle: Obstacle) -> Record:
    return {"scheduler": obstacle.scheduler, "mode": str(obstacle.mode), "queue": ""}
