"""Both clients, call by call: the same questions must give the same answers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import queuegate
from queuegate import Decision, InvalidArgument, Reason
from queuegate.v1 import access_pb2
from tests.support.client_calls import ABOUT_VIEWING, Ask
from tests.support.fakes.scripted_server import Script, ScriptedServer
from tests.support.fakes.scripted_services import REVISION

QUEUES = [f"root.q{number}" for number in range(5)]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(queues=QUEUES, health_of={"": 1, "queuegate.v1.PolicyService": 2}) as it:
        yield it


async def test_check_sends_every_argument(ask: Ask, script: Script) -> None:
    decision = await ask(
        "check", "alice", "root.A", partition="gpu", access="admin", groups=["g1", "g2"]
    )
    assert decision == Decision(
        allowed=True,
        reason=Reason.USER,
        matched_queue="root.a",
        matched_subject="alice",
        policy_revision=REVISION,
        evaluated_queue="",
    )
    (request,) = script.requests("CheckQueueAccess")
    assert (request.user.user, list(request.user.groups)) == ("alice", ["g1", "g2"])
    assert (request.partition, request.queue) == ("gpu", "root.A")
    assert request.access == access_pb2.ACCESS_TYPE_ADMIN


async def test_check_defaults(ask: Ask, script: Script) -> None:
    await ask("check", "alice", "root.a")
    (request,) = script.requests("CheckQueueAccess")
    assert request.partition == "default"
    assert request.access == access_pb2.ACCESS_TYPE_SUBMIT
    assert not request.user.groups


async def test_denied_is_an_answer_and_false(ask: Ask) -> None:
    decision = await ask("check", "denied", "root.a")
    assert not decision
    assert decision.allowed is False
    assert decision.reason is Reason.NO_MATCH


async def test_a_missing_queue_is_said_where_it_is_decided(ask: Ask, script: Script) -> None:
    script.answers["CheckQueueAccess"] = access_pb2.CheckQueueAccessResponse(
        reason=access_pb2.REASON_NO_MATCH, evaluated_queue="root"
    )
    decision = await ask("check", "alice", "root.new")
    assert decision.evaluated_queue == "root"


async def test_an_empty_response_is_denied(ask: Ask, script: Script) -> None:
    script.answers["CheckQueueAccess"] = access_pb2.CheckQueueAccessResponse(reason=99)  # type: ignore[arg-type]
    decision = await ask("check", "alice", "root.a")
    assert not decision
    assert decision.reason is Reason.UNSPECIFIED


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("reason", access_pb2.Reason.values())
async def test_an_answer_that_contradicts_its_reason_is_an_error(
    ask: Ask, script: Script, allowed: bool, reason: access_pb2.Reason.ValueType
) -> None:
    """Of every reason: neither the one nor the other can be believed."""
    denied = access_pb2.Reason.Name(reason) in {
        "REASON_NO_MATCH",
        "REASON_UNKNOWN_USER",
        "REASON_RECOVERY_QUEUE",
        "REASON_UNKNOWN_QUEUE",
    }
    answer = access_pb2.CheckQueueAccessResponse(allowed=allowed, reason=reason)
    of_application = access_pb2.CheckApplicationAccessResponse(allowed=allowed, reason=reason)
    script.answers["CheckQueueAccess"] = answer
    script.answers["ExplainQueueAccess"] = access_pb2.ExplainQueueAccessResponse(decision=answer)
    script.answers["CheckApplicationAccess"] = of_application
    script.answers["ExplainApplicationAccess"] = access_pb2.ExplainApplicationAccessResponse(
        decision=of_application
    )
    script.answers["BatchCheckQueueAccess"] = access_pb2.BatchCheckQueueAccessResponse(
        results=[access_pb2.CheckResult(decision=answer)]
    )
    application = queuegate.Application("root.a", "ann")
    calls: list[tuple[Any, ...]] = [
        ("check", "alice", "root.a"),
        ("explain", "alice", "root.a"),
        ("check_application", "alice", "view", application),
        ("explain_application", "alice", "view", application),
    ]
    [result] = await ask("check_many", [queuegate.Check("alice", "root.a")])
    if not reason or allowed is not denied:
        assert bool(result) is allowed
        for call in calls:
            assert bool(await ask(*call)) is allowed
        return
    assert isinstance(result, queuegate.CheckFailure)
    assert not result.allowed
    assert isinstance(result.error, queuegate.ServerError)
    for call in calls:
        with pytest.raises(queuegate.ServerError, match="contradicts itself"):
            await ask(*call)


async def test_explain(ask: Ask) -> None:
    explanation = await ask("explain", "alice", "root.a", access="admin")
    assert explanation
    assert explanation.decision.policy_revision == REVISION
    assert explanation.steps == (
        queuegate.Step(
            queue="root.a",
            acl=queuegate.Access.ADMIN,
            acl_text="a,b c.d",
            outcome=queuegate.StepOutcome.NO_MATCH,
            matched_subject="",
            dropped_names=("c.d",),
        ),
    )
    assert explanation.groups == queuegate.ExplainedGroups(
        queuegate.GroupsOrigin.CACHE, ("g1", "g2"), "corp", ""
    )
    assert explanation.evaluated_queue == "root.a"
    assert not await ask("explain", "denied", "root.a")


async def test_queues_follows_the_pages(ask: Ask, script: Script) -> None:
    assert await ask("list_queues", "alice", prefix="root.q", groups=["g"]) == QUEUES
    requests = script.requests("ListQueues")
    assert [request.page_token for request in requests] == ["", "2", "4"]
    assert {request.prefix for request in requests} == {"root.q"}
    assert all(list(request.user.groups) == ["g"] for request in requests)


async def test_queues_with_their_entries(ask: Ask, script: Script) -> None:
    found = await ask("explain_queues", "alice", access="admin", prefix="root.q", real_user="hue")
    kind, access = queuegate.SubjectKind.GROUP, queuegate.Access.ADMIN
    assert found == [
        queuegate.UsableQueue(queue, queuegate.AccessGrant(queue, access, kind, "staff\x1b"))
        for queue in QUEUES
    ]
    requests = script.requests("ListQueues")
    assert [request.page_token for request in requests] == ["", "2", "4"]
    assert all(request.with_via for request in requests)
    assert {(request.prefix, request.real_user) for request in requests} == {("root.q", "hue")}


async def test_a_server_that_knows_no_entries(ask: Ask, script: Script) -> None:
    script.answers["ListQueues"] = access_pb2.ListQueuesResponse(queues=["root"])
    assert await ask("list_queues", "alice") == ["root"]
    with pytest.raises(queuegate.ServerError, match="1 queues with 0 entries: it may be older"):
        await ask("explain_queues", "alice")


async def test_queues_does_not_follow_a_page_to_itself(ask: Ask, script: Script) -> None:
    script.answers["ListQueues"] = access_pb2.ListQueuesResponse(
        queues=["root"], next_page_token="again"
    )
    with pytest.raises(queuegate.ServerError, match="same page"):
        await ask("list_queues", "alice")


async def test_resolve(ask: Ask, script: Script) -> None:
    resolution = await ask("resolve", "alice", partition="gpu", bypass_cache=True)
    assert resolution == queuegate.Resolution(
        user="alice",
        groups=("g1", "g2"),
        outcome=queuegate.ResolveOutcome.RESOLVED,
        resolver="corp",
        cached=False,
        stale=False,
        resolved_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
        expires_at=None,
        detail="",
    )
    assert resolution
    assert script.requests("ResolveUserGroups")[0].partition == "gpu"


async def test_invalidate(ask: Ask, script: Script) -> None:
    assert (await ask("invalidate")).dropped == 1_000
    assert (await ask("invalidate", ["a", "b"], partition="gpu")).dropped == 2
    assert (await ask("invalidate", [f"u{n}" for n in range(20_001)])).dropped == 20_001
    assert await ask("invalidate", []) == queuegate.InvalidationResult(0)
    requests = script.requests("InvalidateUserGroups")
    assert [len(request.users) for request in requests] == [0, 2, 10_000, 10_000, 1]
    assert requests[1].partition == "gpu"


async def test_policy(ask: Ask, script: Script) -> None:
    policy = await ask("get_policy", "gpu", "root.a")
    assert policy.source == "queues.yaml"
    assert policy.queues == (queuegate.PolicyQueue("root", "*", "", (), ()),)
    assert policy.partitions == ("default", "gpu")
    assert policy.loaded_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert policy.reload_failed_at is None
    (request,) = script.requests("GetPolicy")
    assert (request.partition, request.prefix) == ("gpu", "root.a")


async def test_reload(ask: Ask) -> None:
    result = await ask("reload")
    assert result
    assert result.revision == REVISION + 1


async def test_validate(ask: Ask) -> None:
    result = await ask("validate", "text", "yunikorn")
    assert not result
    assert result.diagnostics == (
        queuegate.Diagnostic(queuegate.Severity.ERROR, 2, 3, "root.a", "yunikorn: text", "mend it"),
    )


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("", queuegate.HealthStatus.SERVING),
        ("queuegate.v1.PolicyService", queuegate.HealthStatus.NOT_SERVING),
        ("nosuch", queuegate.HealthStatus.SERVICE_UNKNOWN),
    ],
)
async def test_health(ask: Ask, service: str, expected: queuegate.HealthStatus) -> None:
    health = await ask("check_health", service)
    assert health is expected
    assert bool(health) == (expected == "serving")


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ("check", ("", "root"), {}, InvalidArgument, "user must not be empty"),
    ("check", (None, "root"), {}, TypeError, "user must be a str, not NoneType"),
    ("check", (b"alice", "root"), {}, TypeError, "user must be a str, not bytes"),
    ("check", ("\udcff", "root"), {}, InvalidArgument, "user is not valid Unicode"),
    ("check", ("alice", ""), {}, InvalidArgument, "queue must not be empty"),
    ("check", ("alice", "root"), {"partition": None}, TypeError, "partition must be a str"),
    (
        "check",
        ("alice", "root"),
        {"access": "write"},
        InvalidArgument,
        "'submit', 'admin', not 'write'",
    ),
    ("check", ("alice", "root"), {"access": 1}, TypeError, "access must be a str"),
    ("check", ("alice", "root"), {"groups": "dev"}, TypeError, "groups must be a collection"),
    ("check", ("alice", "root"), {"groups": 7}, TypeError, "groups must be a collection"),
    ("check", ("alice", "root"), {"groups": ["a", 1]}, TypeError, r"groups\[1\] must be a str"),
    (
        "check",
        ("alice", "root"),
        {"groups": [""]},
        InvalidArgument,
        r"groups\[0\] must not be empty",
    ),
    ("check", ("alice", "root"), {"timeout": 0}, InvalidArgument, "timeout must be more than 0"),
    ("check", ("alice", "root"), {"timeout": "1"}, TypeError, "timeout must be a number"),
    ("check", ("alice", "root"), {"timeout": True}, TypeError, "timeout must be a number"),
    ("check", ("alice", "root"), {"timeout": 1e12}, InvalidArgument, "at most 86400"),
    ("check", ("alice", "root"), {"timeout": float("nan")}, InvalidArgument, "timeout"),
    ("explain", ("", "root"), {}, InvalidArgument, "user must not be empty"),
    ("check_many", ([("alice", "root")],), {}, TypeError, r"checks\[0\] must be of type Check"),
    ("check_many", (7,), {}, TypeError, "checks must be a collection of Check"),
    (
        "check_applications",
        ([ABOUT_VIEWING] * 10_000 + ["view"],),
        {},
        TypeError,
        r"checks\[10000\] must be of type ApplicationCheck",
    ),
    ("check_applications", (7,), {}, TypeError, "checks must be a collection of ApplicationCheck"),
    ("list_queues", ("alice",), {"access": ""}, InvalidArgument, "access must be one of"),
    ("list_queues", ("alice",), {"prefix": 1}, TypeError, "prefix must be a str"),
    ("resolve", ("",), {}, InvalidArgument, "user must not be empty"),
    ("invalidate", ("alice",), {}, TypeError, "users must be a collection"),
    ("invalidate", ([""],), {}, InvalidArgument, r"users\[0\] must not be empty"),
    ("invalidate", (["a"],), {"wait": "yes"}, TypeError, "wait must be a bool, not str"),
    ("reload", (), {"wait": 1}, TypeError, "wait must be a bool, not int"),
    ("get_policy", (None,), {}, TypeError, "partition must be a str"),
    ("validate", (b"x",), {}, TypeError, "content must be a str"),
    ("validate", ("x", None), {}, TypeError, "format must be a str"),
    ("reload", (), {"timeout": -1}, InvalidArgument, "timeout must be more than 0"),
    ("check_health", (1,), {}, TypeError, "service must be a str"),
]


@pytest.mark.parametrize(("method", "args", "kwargs", "error", "message"), WRONG)
async def test_wrong_arguments_are_refused_before_anything_is_sent(
    ask: Ask,
    script: Script,
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message) as caught:
        await ask(method, *args, **kwargs)
    assert script.calls == []
    if isinstance(caught.value, InvalidArgument):
        assert isinstance(caught.value, ValueError)
        assert caught.value.code == "INVALID_ARGUMENT"
        (violation,) = caught.value.violations
        assert str(caught.value) == f"{violation.field} {violation.description}"


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("list_users", ("root",)), ("reload", ()), ("validate", ("partitions: []",))],
)
async def test_slow_calls_have_longer_time_limits(
    server: ScriptedServer,
    connect: Callable[..., Ask],
    script: Script,
    method: str,
    arguments: tuple[str, ...],
) -> None:
    await connect(server.address)(method, *arguments)
    limits = [call.seconds_left or 0 for call in script.calls]
    assert limits
    assert all(5 < limit <= 31 for limit in limits)  # gRPC rounds up


async def test_the_time_limit_goes_to_the_server(ask: Ask, script: Script) -> None:
    await ask("check", "alice", "root")
    await ask("check", "alice", "root", timeout=1000)
    first, second = (call.seconds_left for call in script.calls)
    assert first is not None
    assert second is not None
    # gRPC rounds up when it writes them into the request.
    assert 30 < first <= 62
    assert 900 < second <= 1010
