"""Answers to an API server that asks whether somebody may use a queue."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from queuegate_server.admin.bodies import RequestRefusal
from queuegate_server.admission.queues.authorize import NO_OPINION, QueueAuthorizer, read_question
from queuegate_server.admission.queues.records import QueueRecords
from queuegate_server.admission.server.review import MalformedReview
from queuegate_server.admission.server.webhook_limits import MAX_QUESTION_BYTES, MAX_REQUEST_GROUPS
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine
from queuegate_server.fleet.view import QueueDecisions
from queuegate_server.settings.admission import Admission, Authorization
from tests.support.fakes.directory import FakeDirectory
from tests.support.queue_reviews import TREE, Audit, counted, snapshot
from tests.support.rows import rows
from tests.support.snapshots import zero

pytestmark = pytest.mark.usefixtures("no_task_left")

QUEUE = {"group": "queuegate.io", "resource": "queues", "verb": "submit", "name": "root.prod"}


def body(user: str = "bob", version: str = "v1", groups: Sequence[str] = (), **asked: Any) -> bytes:
    spec = {
        "user": user,
        "groups" if version == "v1" else "group": list(groups),
        "resourceAttributes": QUEUE | asked,
    }
    review = {
        "apiVersion": f"authorization.k8s.io/{version}",
        "kind": "SubjectAccessReview",
        "metadata": {"creationTimestamp": None},
        "spec": spec,
        "status": {"allowed": False},
    }
    return json.dumps(review).encode()


class Authorizing:
    """An authorizer with its directory and audit log."""

    def __init__(self, **settings: Any) -> None:
        self.directory = FakeDirectory(bob=("staff",), dave=())
        self.audit = Audit()
        self.decisions = DecisionLog(self.audit, allowed=True)
        self.registry = CollectorRegistry()
        engine = Engine(zero)
        engine.serve(snapshot(TREE, self.directory))
        self.records = QueueRecords(self.decisions, self.registry, zero)
        self.authorizer = QueueAuthorizer(
            engine, self.records, Authorization.model_validate(settings)
        )

    async def ask(
        self, content: bytes, *, verified: bool = True, seconds: float = 5.0
    ) -> tuple[str, dict[str, Any]]:
        """Return the outcome and the answered review."""
        deadline = asyncio.get_running_loop().time() + seconds
        answer = await self.authorizer(content, verified=verified, deadline=deadline)
        review: dict[str, Any] = json.loads(answer.content)
        assert review["kind"] == "SubjectAccessReview"
        assert review["status"]["denied"] is False
        assert review["status"]["allowed"] is (answer.outcome == "allowed")
        return answer.outcome, review


@rows
async def test_questions_about_queues(
    user: str, asked: Mapping[str, str], outcome: str, reason: str
) -> None:
    authorizing = Authorizing()
    answered, review = await authorizing.ask(body(user, **asked))
    assert answered == outcome
    assert review["status"]["reason"].startswith(f"queuegate: {reason}")
    assert "staff" not in review["status"]["reason"]


@rows
async def test_nothing_else_is_answered(asked: Mapping[str, str]) -> None:
    authorizing = Authorizing()
    outcome, review = await authorizing.ask(body(**asked))
    assert (outcome, review["status"]) == (NO_OPINION, {"allowed": False, "denied": False})
    assert authorizing.audit.records == []
    assert authorizing.directory.asked == {}


async def test_requests_without_resource_or_user_are_no_questions() -> None:
    path = {"spec": {"user": "bob", "nonResourceAttributes": {"path": "/livez", "verb": "get"}}}
    review = json.loads(body()) | path
    assert read_question(json.dumps(review).encode())[1] is None
    assert read_question(body(user=""))[1] is None


async def test_the_version_of_the_question_is_answered() -> None:
    authorizing = Authorizing(groups="kubernetes")
    for version in ("v1", "v1beta1"):
        outcome, review = await authorizing.ask(body("dave", version, ["staff"]))
        assert (outcome, review["apiVersion"]) == ("allowed", f"authorization.k8s.io/{version}")
    assert (await authorizing.ask(body("bob")))[0] == NO_OPINION


async def test_only_verified_callers_may_ask() -> None:
    authorizing = Authorizing()
    with pytest.raises(RequestRefusal, match=r"set admission\.tls\.client_ca_file") as refused:
        await authorizing.ask(body(), verified=False)
    assert refused.value.status == 403
    assert authorizing.directory.asked == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "the body is not JSON"),
        (b"[" * 100_000, "the body is not a SubjectAccessReview|nested too deeply"),
        (b"{}", "the body is not a SubjectAccessReview"),
        (body().replace(b"SubjectAccessReview", b"TokenReview"), "authorization.k8s.io/v1 or"),
        (body(version="v2"), "authorization.k8s.io/v1 or"),
        (body(name=1), "the body is not a SubjectAccessReview"),
        (body(groups=["x"] * (MAX_REQUEST_GROUPS + 1)), "spec.groups has more than"),
    ],
)
async def test_other_bodies_are_malformed(content: bytes, message: str) -> None:
    with pytest.raises(MalformedReview, match=message):
        await Authorizing().ask(content)


async def test_long_bodies_are_refused() -> None:
    with pytest.raises(RequestRefusal) as refused:
        await Authorizing().ask(body() + b" " * MAX_QUESTION_BYTES)
    assert refused.value.status == 413


async def test_answers_are_recorded_and_counted() -> None:
    authorizing = Authorizing()
    await authorizing.ask(body("bob"))
    await authorizing.ask(body("dave"))
    assert sum(authorizing.decisions.counts) == 2
    (allowed, denied) = authorizing.audit.records
    assert allowed["method"] == "SubjectAccessReview"
    assert (allowed["user"], allowed["queue"], allowed["access"]) == ("bob", "root.prod", "submit")
    assert (allowed["decision"], allowed["revision"]) == ("allowed", 7)
    assert (allowed["scheduler"], allowed["mode"]) == ("authorize", "off")
    assert (denied["user"], denied["decision"]) == ("dave", "denied")
    assert counted(authorizing.registry) == {
        ("authorize", "allowed", "off"): 1,
        ("authorize", "denied", "off"): 1,
    }


async def test_a_webhook_that_answers_questions_reports_them() -> None:
    """Even before the first one, if `admission.authorize` is set."""
    authorizing = Authorizing()
    with_section, without = Admission(authorize=Authorization()), Admission()
    by_scheduler = authorizing.records.by_scheduler
    assert by_scheduler(with_section) == [QueueDecisions("authorize", "")]
    assert by_scheduler(without) == []
    await authorizing.ask(body("bob"))
    await authorizing.ask(body("dave"))
    rows = [QueueDecisions("authorize", "", allowed=1, denied=1)]
    assert by_scheduler(with_section) == by_scheduler(without) == rows


async def test_an_answer_that_cannot_be_recorded_is_withheld() -> None:
    authorizing = Authorizing()
    authorizing.audit.has_room = False
    with pytest.raises(RequestRefusal, match="audit log") as refused:
        await authorizing.ask(body("bob"))
    assert refused.value.status == 500
    assert sum(authorizing.decisions.counts) == 0


async def test_an_unavailable_directory_is_no_yes() -> None:
    """Wildcards and names of users still decide."""
    authorizing = Authorizing()
    authorizing.directory.broken = True
    with pytest.raises(RequestRefusal, match="unavailable") as refused:
        await authorizing.ask(body("bob"))
    assert refused.value.status == 500
    assert authorizing.audit.records[0]["decision"] == "error"
    assert counted(authorizing.registry) == {("authorize", "error", "off"): 1}
    assert (await authorizing.ask(body("alice", name="root.dev")))[0] == "allowed"


async def test_the_deadline_is_kept() -> None:
    authorizing = Authorizing()
    with pytest.raises(RequestRefusal, match="did not answer in time"):
        await authorizing.ask(body("bob"), seconds=0.0)


async def test_an_unknown_partition_is_an_error() -> None:
    with pytest.raises(RequestRefusal, match=r"admission\.authorize\.partition"):
        await Authorizing(partition="other").ask(body())
