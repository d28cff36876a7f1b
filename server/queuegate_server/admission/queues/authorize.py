"""The /authorize endpoint, for an API server that uses it as an authorizer.

`kubectl auth can-i submit queues.queuegate.io/root.prod` asks about the `submit` verb and a name in
the resource `queues` of the group `queuegate.io`. kubectl splits group and resource only if the API
server serves the resource; otherwise it asks about the resource `queues.queuegate.io` in the group
"" (`CanIOptions.resourceFor` in kubectl's pkg/cmd/auth/cani.go).

The answer is either `yes` or `no opinion`, never a denial, which would override RBAC.
"""

from typing import Any, Final, NamedTuple

import msgspec

from queuegate.policy.decision import Access
from queuegate_server.admin.bodies import RequestRefusal
from queuegate_server.admission.queues.messages import action, reason_text
from queuegate_server.admission.queues.model import RequiredCheck
from queuegate_server.admission.queues.records import QUESTIONS, QueueRecords, user_fields
from queuegate_server.admission.queues.review_decider import CannotDecide, Requester, ReviewDecider
from queuegate_server.admission.server.endpoints import Answer
from queuegate_server.admission.server.review import MalformedReview, decoding
from queuegate_server.admission.server.webhook_limits import MAX_QUESTION_BYTES, MAX_REQUEST_GROUPS
from queuegate_server.engine import Engine
from queuegate_server.settings.admission import Authorization
from queuegate_server.settings.queue_schedulers import Mode

PATH: Final = "/authorize"
KIND: Final = "SubjectAccessReview"
_VERSIONS: Final = ("authorization.k8s.io/v1", "authorization.k8s.io/v1beta1")
_GROUP: Final = "queuegate.io"
_RESOURCES: Final = frozenset({(_GROUP, "queues"), ("", f"queues.{_GROUP}")})
_ACCESS: Final = {"submit": Access.SUBMIT, "admin": Access.ADMIN}
NO_OPINION: Final = "no_opinion"


class _Attributes(msgspec.Struct):
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    verb: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    resource_attributes: _Attributes | None = None
    user: str = ""
    groups: list[str] | None = None
    group: list[str] | None = None
    """The groups in v1beta1."""


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    spec: _Spec


_DECODER: Final = msgspec.json.Decoder(_Review)


class Question(NamedTuple):
    """A question about access to a queue."""

    user: str
    groups: tuple[str, ...]
    queue: str
    access: Access


class QueueAuthorizer:
    """Answers requests to /authorize; see `endpoints.Handle`."""

    def __init__(self, engine: Engine, records: QueueRecords, settings: Authorization) -> None:
        """Create an authorizer.

        Args:
            engine: The engine that serves the policy.
            records: Counts and records decisions.
            settings: The partition, and where groups come from.
        """
        self._engine = engine
        self._records = records
        self._decider = ReviewDecider(engine, settings)

    async def __call__(self, body: bytes, *, verified: bool, deadline: float) -> Answer:
        """Answer a request.

        Raises:
            MalformedReview: The body is not a SubjectAccessReview.
            RequestRefusal: The caller is not verified, or the body
                is too long.
            CannotDecide: The question cannot be decided.
        """
        if not verified:
            raise RequestRefusal(
                403,
                "unverified",
                f"{PATH} answers only clients with a certificate: set admission.tls.client_ca_file",
            )
        if len(body) > MAX_QUESTION_BYTES:
            message = f"the body is longer than {MAX_QUESTION_BYTES} bytes"
            raise RequestRefusal(413, "too_large", message)
        version, question = read_question(body)
        if question is None:
            return _answer(version, "")
        served, revision = self._decider.served(), self._engine.snapshot.policy.revision
        path = served.partition.canonical_path(question.queue)
        if path is None:
            return _answer(version, "the name cannot be a queue path")
        check = RequiredCheck(
            QUESTIONS,
            question.queue,
            "spec.resourceAttributes.name",
            path,
            question.access,
            Mode.OFF,
        )
        requester = Requester(question.user, question.groups, strangers=None)
        outcomes, failure = await self._decider.decide([check], served, requester, deadline)
        fields = user_fields(question.user, served.partition.name)
        await self._records.record(KIND, fields, outcomes, revision)
        (_, outcome) = outcomes[0]
        if isinstance(outcome, str):
            raise CannotDecide(failure)
        asked = action(check.access, check.path)
        if outcome.allowed:
            return _answer(version, f"{question.user} may {asked}", allowed=True)
        why = reason_text(outcome, question.user, check.path)
        return _answer(version, f"{question.user} may not {asked}: {why}")


def read_question(body: bytes) -> tuple[str, Question | None]:
    """Return the version of a SubjectAccessReview, and its question.

    The question is None if it is not about access to one queue. Raises MalformedReview.
    """
    with decoding(f"a {KIND}"):
        review = _DECODER.decode(body)
    if review.kind != KIND or review.api_version not in _VERSIONS:
        raise MalformedReview(f"the body is not a {KIND} of {' or '.join(_VERSIONS)}")
    spec = review.spec
    asked = spec.resource_attributes
    if asked is None or (asked.group, asked.resource) not in _RESOURCES:
        return review.api_version, None
    access = _ACCESS.get(asked.verb)
    # A queue has no subresources, so the name of a subresource is taken as the name of a queue.
    named = [name for name in (asked.name, asked.subresource) if name]
    groups = spec.groups or spec.group or ()
    if len(groups) > MAX_REQUEST_GROUPS:
        raise MalformedReview(f"spec.groups has more than {MAX_REQUEST_GROUPS} items")
    if access is None or len(named) != 1 or not spec.user:
        return review.api_version, None
    return review.api_version, Question(spec.user, tuple(groups), named[0], access)


def _answer(version: str, reason: str, *, allowed: bool = False) -> Answer:
    status: dict[str, Any] = {"allowed": allowed, "denied": False}
    if reason:
        status["reason"] = f"queuegate: {reason}"
    review = {"apiVersion": version, "kind": KIND, "status": status}
    return Answer(msgspec.json.encode(review), "allowed" if allowed else NO_OPINION)
