"""Reviews requests that name queues."""

import asyncio
import dataclasses
from collections.abc import Callable, Generator, Sequence

from queuegate.policy.decision import Decision
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues import messages
from queuegate_server.admission.queues.body import read_queue_review
from queuegate_server.admission.queues.checks import UNQUEUED, requirements
from queuegate_server.admission.queues.missing_grant import MissingGrant
from queuegate_server.admission.queues.model import (
    NO_QUEUES,
    Obstacle,
    QueueName,
    QueueReview,
    RequiredCheck,
    Requirements,
    Usable,
)
from queuegate_server.admission.queues.names import AmbiguousNames, QueueNames
from queuegate_server.admission.queues.places import build_places, only_scheduler
from queuegate_server.admission.queues.rbac_names import queue_names
from queuegate_server.admission.queues.records import METHOD, QueueRecords, review_fields
from queuegate_server.admission.queues.review_decider import (
    CannotDecide,
    Requester,
    ReviewDecider,
    access_of,
)
from queuegate_server.admission.queues.usable_queues import UsableQueues
from queuegate_server.admission.server.review import ALLOWED, AdmissionResponse, deny
from queuegate_server.admission.server.strangers import StrangerLookups
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.formats.yunikorn import go_regexp
from queuegate_server.reloads import SnapshotListener
from queuegate_server.runtime.pacing import run_with_pauses
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import Mode


class QueueReviewer:
    """Reviews requests with the served policy.

    Args:
        engine: The engine that serves the policy.
        settings: The checks.
        records: Counts and records decisions.
        strangers: The budget for lookups that unverified callers cause.
        is_processed: Returns whether YuniKorn's admission controller processes a namespace.
    """

    def __init__(
        self,
        engine: Engine,
        settings: QueueChecks,
        records: QueueRecords,
        strangers: StrangerLookups | None = None,
        is_processed: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._engine = engine
        self._records = records
        self._strangers = strangers or StrangerLookups()
        self._is_processed = is_processed
        self._usable = UsableQueues()
        self._turn = asyncio.Lock()
        self.reconfigure(settings)
        engine.on_swap(SnapshotListener.WEBHOOK, self._release)

    def reconfigure(self, settings: QueueChecks) -> None:
        """Apply changed settings."""
        self._settings = settings
        self._places = build_places(settings)
        patterns = (*settings.controllers, *settings.exempt)
        self._exempt = [go_regexp.compile_pattern(pattern) for pattern in patterns]
        self._decider = ReviewDecider(self._engine, settings)
        self._names: QueueNames | None = None

    async def review(
        self, body: bytes, *, verified: bool, deadline: float
    ) -> tuple[QueueReview, AdmissionResponse]:
        """Review the request in a body.

        Args:
            body: An AdmissionReview as JSON.
            verified: Whether the caller presented a certificate that the settings accept. Other
                callers may send requests in anyone's name, so they do not learn which queues a user
                may use.
            deadline: When the response must be ready, as for `asyncio.timeout_at`.

        Returns:
            The request, possibly without its objects, and the response.

        Raises:
            MalformedReview: The body is not an AdmissionReview.
            CannotDecide: The request cannot be decided.
        """
        steps = self._require(body)
        review, required = await run_with_pauses(steps, self._turn)
        if not required.checks and not required.obstacles:
            return review, ALLOWED
        return review, await self._decide(review, required, verified=verified, deadline=deadline)

    def _release(self, _: Snapshot) -> None:
        """Release references to the replaced policy, so that its memory can be freed."""
        self._names = None
        self._usable.clear()

    def _require(self, body: bytes) -> Generator[None, None, tuple[QueueReview, Requirements]]:
        """Return the request without its objects, and what must hold before it is accepted."""
        review = yield from read_queue_review(body)
        required = Requirements()
        settings, places = self._settings, self._places
        if settings.mode is not Mode.OFF and not self._is_exempt(review.user):
            required = yield from requirements(
                review, settings, places, self._current_names, self._is_processed
            )
        # Release the objects, which may be large, before waiting for lookups.
        return dataclasses.replace(review, new=None, old=None), required

    def _is_exempt(self, user: str) -> bool:
        return any(pattern.search(user) is not None for pattern in self._exempt)

    def _current_names(self) -> QueueNames:
        partition = self._decider.served().partition
        if self._names is None or self._names.partition is not partition:
            try:
                self._names = queue_names(partition, self._settings.schedulers)
            except AmbiguousNames as error:
                raise CannotDecide(f"admission.queues.schedulers: {error}") from None
        return self._names

    async def _decide(
        self, review: QueueReview, required: Requirements, *, verified: bool, deadline: float
    ) -> AdmissionResponse:
        served, revision = self._decider.served(), self._engine.snapshot.policy.revision
        strangers = None if verified else self._strangers
        requester = Requester(review.user, review.groups, strangers)
        outcomes, failure = await self._decider.decide(required.checks, served, requester, deadline)
        fields = review_fields(review, served.partition.name, verified=verified)
        await self._records.record(METHOD, fields, outcomes, revision, required.obstacles)
        denied = [
            (check, decision)
            for check, decision in outcomes
            if isinstance(decision, Decision) and not decision.allowed
        ]
        is_refused = any(obstacle.mode is Mode.DENY for obstacle in required.obstacles)
        is_denied = any(check.mode is Mode.DENY for check, _ in denied)
        is_undecided = any(
            isinstance(outcome, str) and check.mode is Mode.DENY for check, outcome in outcomes
        )
        if is_undecided and not is_refused and not is_denied:
            raise CannotDecide(failure)
        usable = NO_QUEUES
        if verified and is_denied and not is_refused:
            check = next(check for check, _ in denied if check.mode is Mode.DENY)
            usable = await self._find_usable(check, review, served, requester)
        response = _response(review.user, served.partition, required.obstacles, denied, usable)
        if failure and response.allowed:
            # Only schedulers in warn mode are affected, so the object is not refused.
            warnings = (f"the queue cannot be checked: {failure}", *response.warnings)
            return dataclasses.replace(response, warnings=warnings)
        return response

    async def _find_usable(
        self,
        check: RequiredCheck,
        review: QueueReview,
        served: ServedPartition,
        requester: Requester,
    ) -> Usable:
        """Return queues that the requester may use instead of a denied queue."""
        scheduler = check.scheduler
        if scheduler == UNQUEUED:
            scheduler = only_scheduler(self._settings.schedulers)
        names = self._names
        if not scheduler or check.is_joined:
            return NO_QUEUES  # a user would not write a queue name there
        if names is None or names.partition is not served.partition:
            return NO_QUEUES  # the policy was replaced during a lookup
        place = QueueName(scheduler, "", "", access_of(check, served), check.template)
        groups = self._decider.known_groups(served, requester)
        return await self._usable.find(names, place, review.namespace, review.user, groups)


def _response(
    user: str,
    partition: Partition,
    obstacles: Sequence[Obstacle],
    denied: Sequence[tuple[RequiredCheck, Decision]],
    usable: Usable,
) -> AdmissionResponse:
    """Deny if any failure is in `deny` mode; otherwise allow, with a warning for each failure."""
    name, grants = partition.name, partition.named_grants

    def grant(check: RequiredCheck) -> MissingGrant | None:
        return None if grants is None else MissingGrant.of(check.path, user, grants)

    refused = [obstacle for obstacle in obstacles if obstacle.mode is Mode.DENY]
    if refused:
        return deny(messages.refusal(refused[0]))
    denials = [each for each in denied if each[0].mode is Mode.DENY]
    if denials:
        check, decision = denials[0]
        more = len(denials) - 1
        message = messages.denial(
            user, check, decision, name, more=more, usable=usable, grant=grant(check)
        )
        return deny(message)
    warnings = [
        *(messages.refusal(obstacle) for obstacle in obstacles),
        *(
            messages.denial_warning(user, check, decision, name, grant(check))
            for check, decision in denied
        ),
    ]
    # Long warnings may be truncated, and only the first few warnings are sent.
    return AdmissionResponse(allowed=True, warnings=tuple(sorted(warnings, key=len)))
