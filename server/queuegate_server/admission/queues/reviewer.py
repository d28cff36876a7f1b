"""Reviews the queues that objects name: the endpoint /queues."""

from collections.abc import Mapping, Sequence
from typing import Final

from queuegate.policy.decision import Decision
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues import messages
from queuegate_server.admission.queues.body import read_queue_review
from queuegate_server.admission.queues.checks import requirements
from queuegate_server.admission.queues.decider import Decider, InvalidUser
from queuegate_server.admission.queues.model import (
    Obstacle,
    Outcome,
    QueueReview,
    RequiredCheck,
    Requirements,
)
from queuegate_server.admission.queues.names import AmbiguousNames, QueueNames
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.records import QueueRecords
from queuegate_server.admission.rules import ALLOWED, AdmissionResponse, deny
from queuegate_server.decisions.log import AuditUnavailable
from queuegate_server.engine import Engine, GroupsUnavailable, Snapshot, UnknownPartition
from queuegate_server.formats.diagnostics import Diagnostic
from queuegate_server.formats.yunikorn import go_regexp
from queuegate_server.settings.admission import Mode, QueueChecks
from queuegate_server.settings.source_map import error_in

MAX_USABLE_SEARCHED: Final = 100
"""The maximum number of usable queues that are counted for a message."""


class CannotReview(Exception):
    """Raised if a request cannot be decided. The API server gets an HTTP error with the message,
    and applies the webhook's failurePolicy.
    """


class QueueReviewer:
    """Reviews requests with the served policy.

    Args:
        engine: The engine that serves the policy.
        settings: The checks.
        records: Counts and records decisions.
    """

    def __init__(self, engine: Engine, settings: QueueChecks, records: QueueRecords) -> None:
        self._engine = engine
        self._records = records
        self._snapshot: Snapshot | None = None
        self.reconfigure(settings)

    def reconfigure(self, settings: QueueChecks) -> None:
        """Apply changed settings."""
        self._settings = settings
        self._places = build_places(settings)
        patterns = (*settings.controllers, *settings.exempt)
        self._exempt = [go_regexp.compile_pattern(pattern) for pattern in patterns]
        self._decider = Decider(self._engine, settings.groups)
        self._names: QueueNames | None = None

    async def review(self, body: bytes, *, verified: bool) -> tuple[str, AdmissionResponse]:
        """Review the request in a body.

        Args:
            body: An AdmissionReview as JSON.
            verified: Whether the caller presented a certificate of a trusted CA. Other callers
                may ask in anybody's name, so they do not learn which queues a user may use.

        Returns:
            The request's UID, and the response.

        Raises:
            MalformedReview: The body is not an AdmissionReview.
            CannotReview: The request cannot be decided.
        """
        review = read_queue_review(body)
        if self._settings.mode is Mode.OFF or self._is_exempt(review.user):
            return review.uid, ALLOWED
        names = self._current_names()
        required = requirements(review, self._settings, self._places, names)
        if not required.checks and not required.obstacles:
            return review.uid, ALLOWED
        return review.uid, await self._decide(review, required, names, verified=verified)

    def _is_exempt(self, user: str) -> bool:
        return any(pattern.search(user) is not None for pattern in self._exempt)

    def _current_names(self) -> QueueNames:
        snapshot = self._engine.snapshot
        if self._names is None or snapshot is not self._snapshot:
            try:
                served = snapshot.find(self._settings.partition)
                self._names = QueueNames(served.partition, self._settings.schedulers)
            except (UnknownPartition, AmbiguousNames) as error:
                raise CannotReview(f"admission.queues: {error}") from None
            self._snapshot = snapshot
        return self._names

    async def _decide(
        self, review: QueueReview, required: Requirements, names: QueueNames, *, verified: bool
    ) -> AdmissionResponse:
        snapshot = self._engine.snapshot
        served = snapshot.find(names.partition.name)
        for obstacle in required.obstacles:
            self._records.count(obstacle.scheduler, "refused", str(obstacle.mode))
        outcomes: list[Outcome]
        failure = ""
        try:
            outcomes = await self._decider.decide(
                required.checks, served, review.user, review.groups
            )
        except (GroupsUnavailable, InvalidUser) as error:
            failure = str(error)
            outcomes = [(check, error_name(error)) for check in required.checks]
        try:
            await self._records.record(
                review,
                outcomes,
                served.partition.name,
                snapshot.policy.revision,
                verified=verified,
            )
        except AuditUnavailable as error:
            raise CannotReview(str(error)) from None
        if failure:
            raise CannotReview(failure)
        denied = [
            (check, decision)
            for check, decision in outcomes
            if isinstance(decision, Decision) and not decision.allowed
        ]
        usable: Sequence[str] = ()
        if verified and denied:
            usable = self._decider.usable(served, review.user, review.groups, MAX_USABLE_SEARCHED)
        return _response(review.user, required.obstacles, denied, usable)


def ambiguities(settings: QueueChecks, partitions: Mapping[str, Partition]) -> list[Diagnostic]:
    """Return why policies cannot be used with the settings; empty if they can.

    Args:
        settings: The checks.
        partitions: The partitions of all policies.
    """
    partition = partitions.get(settings.partition)
    if partition is None:
        known = ", ".join(sorted(partitions)) or "none"
        return [
            error_in(
                "settings",
                f"admission.queues.partition is {settings.partition}, but the policy has {known}",
                "correct the name",
            )
        ]
    try:
        QueueNames(partition, settings.schedulers)
    except AmbiguousNames as error:
        return [error_in("policy", str(error), "see admission.queues.schedulers in the settings")]
    return []


def error_name(error: Exception) -> str:
    """Return an error's reason for audit records, as in gRPC errors."""
    return "invalid_request" if isinstance(error, InvalidUser) else "resolver_unavailable"


def _response(
    user: str,
    obstacles: Sequence[Obstacle],
    denied: Sequence[tuple[RequiredCheck, Decision]],
    usable: Sequence[str],
) -> AdmissionResponse:
    """Deny if any failure has the mode `deny`; otherwise allow, with a warning for each failure."""
    refused = [obstacle for obstacle in obstacles if obstacle.mode is Mode.DENY]
    if refused:
        return deny(messages.refusal(refused[0]))
    denials = [each for each in denied if each[0].mode is Mode.DENY]
    if denials:
        check, decision = denials[0]
        return deny(messages.denial(user, check, decision, len(denials) - 1, usable))
    warnings = [
        *(messages.refusal(obstacle) for obstacle in obstacles),
        *(messages.denial(user, check, decision, 0, ()) for check, decision in denied),
    ]
    return AdmissionResponse(allowed=True, warnings=tuple(warnings))
