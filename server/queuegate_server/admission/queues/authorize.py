"""The endpoint /authorize, for an API server that asks it as one of its authorizers.

`kubectl auth can-i submit queues.queuegate.io/root.prod` asks about the verb `submit` and a name in
the resource `queues` of the group `queuegate.io`. kubectl splits group and resource only if the API
server serves the resource; otherwise it asks about the resource `queues.queuegate.io` in the group
"" (`CanIOptions.resourceFor` in kubectl's pkg/cmd/auth/cani.go).

The answer is yes or no opinion. It is never a denial, which would override RBAC.
"""

import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from queuegate.policy.decision import Access, Decision
from queuegate_server.admission.bodies import RequestRefusal
from queuegate_server.admission.endpoints import Answer
from queuegate_server.admission.queues.decider import Decider, Requester
from queuegate_server.admission.queues.messages import action, reason_text
from queuegate_server.admission.queues.model import RequiredCheck
from queuegate_server.admission.queues.strangers import StrangerLookups
from queuegate_server.admission.review import MalformedReview
from queuegate_server.decisions.log import (
    ERROR,
    NUMBERS,
    AuditUnavailable,
    DecidedCheck,
    DecisionLog,
)
from queuegate_server.engine import Engine, NotReady, ServedPartition, UnknownPartition
from queuegate_server.settings.admission import Mode, QueueChecks

PATH: Final = "/authorize"
KIND: Final = "SubjectAccessReview"
_VERSIONS: Final = ("authorization.k8s.io/v1", "authorization.k8s.io/v1beta1")
_GROUP: Final = "queuegate.io"
_RESOURCES: Final = frozenset({(_GROUP, "queues"), ("", f"queues.{_GROUP}")})
_ACCESS: Final = {"submit": Access.SUBMIT, "admin": Access.ADMIN}
MAX_BYTES: Final = 1024 * 1024
"""The maximum size of a body. Nearly all of it are the user's groups."""
MAX_GROUPS: Final = 10_000
_CALLER: Final = "webhook"
_RECORD_BYTES: Final = 512
_MAX_TEXT: Final = 1_024
"""The maximum length of a text in an audit record."""
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
    """Answers requests to the path /authorize; see `endpoints.Handle`."""

    def __init__(self, engine: Engine, decisions: DecisionLog, settings: QueueChecks) -> None:
        """Create an authorizer.

        Args:
            engine: The engine that serves the policy.
            decisions: Counts decisions and writes audit records.
            settings: The partition, and where groups come from.
        """
        self._engine = engine
        self._decisions = decisions
        self._partition = settings.partition
        self._decider = Decider(engine, settings.groups, StrangerLookups())

    async def __call__(self, body: bytes, *, verified: bool, deadline: float) -> Answer:
        """Answer a request.

        Raises:
            MalformedReview: The body is not a SubjectAccessReview.
            RequestRefusal: The caller is not verified, so it may ask about anybody; the body is too
                long; or the question cannot be decided.
        """
        if not verified:
            raise RequestRefusal(
                403,
                "unverified",
                f"{PATH} answers only clients with a certificate: set admission.tls.client_ca_file",
            )
        if len(body) > MAX_BYTES:
            raise RequestRefusal(413, "too_large", f"the body is longer than {MAX_BYTES} bytes")
        version, question = read_question(body)
        if question is None:
            return _answer(version, "")
        served = self._served()
        path = served.partition.path(question.queue)
        if path is None:
            return _answer(version, "the name cannot be the path of a queue")
        check = RequiredCheck(
            *("authorize", question.queue, "spec.resourceAttributes.name"),
            *(path, question.access, Mode.DENY),
        )
        return await self._decide(version, question, check, served, deadline)

    def _served(self) -> ServedPartition:
        try:
            return self._engine.snapshot.find(self._partition)
        except (NotReady, UnknownPartition) as error:
            raise RequestRefusal(500, "failed", f"admission.queues.partition: {error}") from None

    async def _decide(
        self,
        version: str,
        question: Question,
        check: RequiredCheck,
        served: ServedPartition,
        deadline: float,
    ) -> Answer:
        revision = self._engine.snapshot.policy.revision
        requester = Requester(question.user, question.groups, verified=True)
        outcomes, failure = await self._decider.decide([check], served, requester, deadline)
        (_, outcome) = outcomes[0]
        await self._record(question, check, served.partition.name, outcome, revision)
        if isinstance(outcome, str):
            raise RequestRefusal(500, "failed", failure)
        asked = action(check.access, check.path)
        if outcome.allowed:
            return _answer(version, f"{question.user} may {asked}", allowed=True)
        return _answer(version, f"{question.user} may not {asked}: {reason_text(outcome)}")

    async def _record(
        self,
        question: Question,
        check: RequiredCheck,
        partition: str,
        outcome: Decision | str,
        revision: int,
    ) -> None:
        number = ERROR if isinstance(outcome, str) else NUMBERS[outcome.reason]
        numbers, now = bytes([number]), time.time()

        def checks() -> Iterator[DecidedCheck]:
            fields = {
                "user": question.user[:_MAX_TEXT],
                "partition": partition,
                "queue": check.path[:_MAX_TEXT],
                "access": str(check.access),
            }
            yield DecidedCheck(KIND, now, _CALLER, fields, outcome, revision)

        if due := self._decisions.due(numbers):
            try:
                await self._decisions.record(checks, due, due * _RECORD_BYTES)
            except AuditUnavailable as error:
                raise RequestRefusal(500, "failed", str(error)) from None
        self._decisions.count(numbers, [outcome] if isinstance(outcome, str) else [])


def read_question(body: bytes) -> tuple[str, Question | None]:
    """Return the version of a SubjectAccessReview, and its question.

    The question is None if it is not about access to one queue. Raises MalformedReview.
    """
    try:
        review = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise MalformedReview(f"the body is not a {KIND}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReview(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise MalformedReview("the body is nested too deeply") from None
    if review.kind != KIND or review.api_version not in _VERSIONS:
        raise MalformedReview(f"the body is not a {KIND} of {' or '.join(_VERSIONS)}")
    spec = review.spec
    asked = spec.resource_attributes
    if asked is None or (asked.group, asked.resource) not in _RESOURCES:
        return review.api_version, None
    access = _ACCESS.get(asked.verb)
    # A queue has no subresources, so a name given as one is a queue's.
    named = [name for name in (asked.name, asked.subresource) if name]
    groups = spec.groups or spec.group or ()
    if len(groups) > MAX_GROUPS:
        raise MalformedReview(f"spec.groups has more than {MAX_GROUPS} items")
    if access is None or len(named) != 1 or not spec.user:
        return review.api_version, None
    return review.api_version, Question(spec.user, tuple(groups), named[0], access)


def _answer(version: str, reason: str, *, allowed: bool = False) -> Answer:
    status: dict[str, Any] = {"allowed": allowed, "denied": False}
    if reason:
        status["reason"] = f"queuegate: {reason}"
    review = {"apiVersion": version, "kind": KIND, "status": status}
    return Answer(msgspec.json.encode(review), "allowed" if allowed else NO_OPINION)
