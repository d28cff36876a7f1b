"""The contract over a real socket, by hand-made stubs: YuniKorn's vectors and bad input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    user_group_information_pb2,
    user_groups_pb2,
    user_groups_pb2_grpc,
)
from tests.running import RunningServer, running_server

QUEUES = """
partitions:
  - name: default
    usergroupresolver: {type: test}
    queues:
      - name: root
        adminacl: boss
        queues:
          - name: open
            submitacl: "*"
          - name: dev
            submitacl: "alice group1001"
            queues:
              - name: deep
  - name: gpu
    queues:
      - name: root
        submitacl: " alice"
"""
SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT
DOCUMENTS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]


@pytest.fixture(scope="module")
def server(over: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("policy") / "queues.yaml"
    path.write_text(QUEUES)
    with running_server("--policy", str(path)) as started:
        yield started


@pytest.fixture(scope="module")
def channel(server: RunningServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as opened:
        yield opened


def request(
    user: str = "alice", queue: str = "root.open", groups: tuple[str, ...] = (), **fields: Any
) -> access_pb2.CheckQueueAccessRequest:
    information = user_group_information_pb2.UserGroupInformation(user=user, groups=groups)
    fields.setdefault("access", SUBMIT)
    return access_pb2.CheckQueueAccessRequest(user=information, queue=queue, **fields)


def check(channel: grpc.Channel, **fields: Any) -> access_pb2.CheckQueueAccessResponse:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    return stub.CheckQueueAccess(request(**fields), timeout=5)


def violations(error: grpc.RpcError) -> list[str]:
    """Return the fields that the error names, and check what every error carries."""
    trailers = {entry.key: entry.value for entry in error.trailing_metadata()}
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "queuegate"
    bad = error_details_pb2.BadRequest()
    if info.reason == "INVALID_FIELD":
        assert status.details[1].Unpack(bad)
    return [violation.field for violation in bad.field_violations]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (True, access_pb2.REASON_WILDCARD, "root.open", "*")),
        ({"queue": "ROOT.Open.x.y"}, (True, access_pb2.REASON_WILDCARD, "root.open", "*")),
        ({"queue": "root.dev"}, (True, access_pb2.REASON_USER, "root.dev", "alice")),
        (
            {"user": "testuser1", "queue": "root.dev.deep"},
            (True, access_pb2.REASON_GROUP, "root.dev", "group1001"),
        ),
        ({"user": "nouser", "queue": "root.dev"}, (False, access_pb2.REASON_UNKNOWN_USER, "", "")),
        ({"user": "testuser4", "queue": "root.dev"}, (False, access_pb2.REASON_NO_MATCH, "", "")),
        (
            {"user": "nouser", "queue": "root.dev", "groups": ("x", "group1001")},
            (True, access_pb2.REASON_GROUP, "root.dev", "group1001"),
        ),
        ({"queue": "root"}, (False, access_pb2.REASON_NO_MATCH, "", "")),
        (
            {"user": "boss", "queue": "root.dev", "access": access_pb2.ACCESS_TYPE_ADMIN},
            (True, access_pb2.REASON_USER, "root", "boss"),
        ),
        (
            {"user": "boss", "queue": "root.@recovery@"},
            (False, access_pb2.REASON_RECOVERY_QUEUE, "root.@recovery@", ""),
        ),
        (
            {"partition": "[rm-1]gpu", "queue": "root.x"},
            (True, access_pb2.REASON_GROUP, "root", "alice"),
        ),
        ({"partition": "[rm-1]default"}, (True, access_pb2.REASON_WILDCARD, "root.open", "*")),
    ],
)
def test_decisions(
    channel: grpc.Channel, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    for _ in range(2):  # the second answer is the kept one
        answer = check(channel, **fields)
        assert (
            answer.allowed,
            answer.reason,
            answer.matched_queue,
            answer.matched_subject,
        ) == expected
        assert answer.policy_revision == 1


def test_a_partial_group_list_is_no_answer(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, user="testuser5", queue="root.dev")
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert violations(caught.value) == []
    # What lists everybody needs no groups, and works without them.
    assert check(channel, user="testuser5", queue="root.open").allowed


@pytest.mark.parametrize("partition", ["nowhere", "DEFAULT", "GPU", "[rm-1]", "[gpu", " "])
def test_unknown_partition(channel: grpc.Channel, partition: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, partition=partition)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "default, gpu" in (caught.value.details() or "")
    assert violations(caught.value) == []


LONG = "x" * 257
BAD_FIELDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"user": ""}, ["user.user"]),
    ({"user": LONG}, ["user.user"]),
    ({"user": "é" * 129}, ["user.user"]),
    ({"user": "a\x00"}, ["user.user"]),
    ({"user": "a\nb"}, ["user.user"]),
    ({"user": "a b", "groups": ("g",)}, ["user.user"]),
    ({"groups": ("g", "")}, ["user.groups[1]"]),
    ({"groups": ("g", LONG, "h\x1b")}, ["user.groups[1]", "user.groups[2]"]),
    ({"groups": ("g",) * 10_001}, ["user.groups"]),
    ({"partition": "x" * 257}, ["partition"]),
    ({"partition": "a\x00"}, ["partition"]),
    ({"queue": ""}, ["queue"]),
    ({"queue": "open"}, ["queue"]),
    ({"queue": "root.a b"}, ["queue"]),
    ({"queue": "root." + "x" * 65}, ["queue"]),
    ({"queue": "root" + ".a" * 2047}, ["queue"]),
    ({"queue": "root.\x00"}, ["queue"]),
    ({"access": 0}, ["access"]),
    ({"access": 3}, ["access"]),
    ({"access": -1}, ["access"]),
    (
        {"user": "", "queue": "", "access": 0, "partition": "\x7f"},
        ["user.user", "partition", "queue", "access"],
    ),
]


@pytest.mark.parametrize(("fields", "named"), BAD_FIELDS, ids=lambda case: str(case)[:40])
def test_bad_fields_are_named(
    channel: grpc.Channel, fields: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, **fields)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(caught.value) == named


@pytest.mark.parametrize(
    "fields",
    [{"user": "x" * 256}, {"queue": "root" + ".a" * 2046}, {"groups": ("g",) * 10_000}],
    ids=["user", "queue", "groups"],
)
def test_the_longest_fields_are_fine(channel: grpc.Channel, fields: dict[str, Any]) -> None:
    assert check(channel, **{"queue": "root.open", **fields}) is not None


def raw(channel: grpc.Channel, service: str, method: str, data: bytes) -> bytes:
    """Call with bytes that no message class would write."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/queuegate.v1.{service}/{method}"
    )
    return call(data, timeout=5)


NOT_UTF8 = b"\x0a\x01\xff"
IN_USER = b"\x0a\x03" + NOT_UTF8


@pytest.mark.parametrize(
    ("service", "method", "data", "named"),
    [
        ("AccessService", "CheckQueueAccess", IN_USER, ["user.user"]),
        ("AccessService", "CheckQueueAccess", b"\x0a\x03\x12\x01\xff", ["user.groups[0]"]),
        (
            "AccessService",
            "CheckQueueAccess",
            b"\x12\x01\xff\x1a\x02\xc0\x80",
            ["partition", "queue"],
        ),
        ("AccessService", "CheckQueueAccess", b"\xff\xff\xff", ["request"]),
        ("AccessService", "CheckQueueAccess", b"", ["user.user", "queue", "access"]),
        ("AccessService", "ExplainQueueAccess", IN_USER, ["user.user"]),
        ("AccessService", "ExplainQueueAccess", b"", ["user.user", "queue", "access"]),
        ("AccessService", "ListQueues", b"\x22\x01\xff", ["prefix"]),
        ("AccessService", "ListQueues", b"", ["user.user", "access"]),
        ("AccessService", "BatchCheckQueueAccess", b"", ["checks"]),
        ("AccessService", "BatchCheckQueueAccess", b"\x0a\x05\x00", ["request"]),
        ("UserGroupService", "ResolveUserGroups", b"", ["user"]),
        ("UserGroupService", "ResolveUserGroups", b"\x12\x01\xff", ["user"]),
        ("UserGroupService", "InvalidateUserGroups", b"\x12\x01a\x12\x01\xff", ["users[1]"]),
        ("UserGroupService", "InvalidateUserGroups", b"\x12\x00", ["users[0]"]),
        ("PolicyService", "GetPolicy", NOT_UTF8, ["partition"]),
        ("PolicyService", "GetPolicy", b"\x12\x01x", ["prefix"]),
        ("PolicyService", "ValidatePolicy", NOT_UTF8, ["format"]),
        ("PolicyService", "ValidatePolicy", b"\x0a\x03xml", ["format"]),
        ("PolicyService", "ReloadPolicy", b"\x0a\x05", ["request"]),
    ],
)
def test_bad_bytes_are_named(
    channel: grpc.Channel, service: str, method: str, data: bytes, named: list[str]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        raw(channel, service, method, data)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert violations(caught.value) == named
    if named == ["request"]:
        assert caught.value.details() == "the bytes are not a message of this type"


def test_one_bad_item_never_fails_the_others(channel: grpc.Channel) -> None:
    good = request().SerializeToString()
    items = [
        good,
        request(queue="").SerializeToString(),
        IN_USER,
        request(partition="nowhere").SerializeToString(),
        request(user="testuser5", queue="root.dev").SerializeToString(),
        good + b"\xf8\x01\x01",  # an unknown field
        request(user="nouser", queue="root.dev").SerializeToString(),
    ]
    data = b"".join(b"\x0a" + len(item).to_bytes(1, "big") + item for item in items)
    for _ in range(2):
        answer = raw(channel, "AccessService", "BatchCheckQueueAccess", data)
        results = access_pb2.BatchCheckQueueAccessResponse.FromString(answer).results
        codes = [result.error.code for result in results]
        assert codes == [0, 3, 3, 5, 14, 0, 0]
        assert results[0].decision.allowed
        assert results[5].decision.allowed
        assert results[6].decision.reason == access_pb2.REASON_UNKNOWN_USER
        assert "user.user" in results[2].error.message


@pytest.mark.parametrize("count", [10_000, 10_001])
def test_the_size_of_a_batch_is_bounded(channel: grpc.Channel, count: int) -> None:
    batch = access_pb2.BatchCheckQueueAccessRequest(
        checks=[request(user=f"u{i}") for i in range(count)]
    )
    stub = access_pb2_grpc.AccessServiceStub(channel)
    if count > 10_000:
        with pytest.raises(grpc.RpcError) as caught:
            stub.BatchCheckQueueAccess(batch, timeout=10)
        assert violations(caught.value) == ["checks"]
    else:
        results = stub.BatchCheckQueueAccess(batch, timeout=10).results
        assert [result.decision.allowed for result in results] == [True] * count


def test_a_message_over_the_limit_is_refused(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, queue="root." + "x" * (5 << 20))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_stream_answers_every_batch(channel: grpc.Channel) -> None:
    batches = [
        access_pb2.StreamQueueAccessRequest(
            id=number,
            batch=access_pb2.BatchCheckQueueAccessRequest(
                checks=[request(user=f"u{number}"), request(queue="root.dev", user=f"u{number}")]
            ),
        )
        for number in range(100)
    ]
    batches.append(access_pb2.StreamQueueAccessRequest(id=100))
    stub = access_pb2_grpc.AccessServiceStub(channel)
    answers = {answer.id: answer for answer in stub.StreamQueueAccess(iter(batches), timeout=20)}
    assert sorted(answers) == list(range(101))
    for number in range(100):
        first, second = answers[number].batch.results
        assert first.decision.allowed
        assert second.decision.reason == access_pb2.REASON_UNKNOWN_USER
    assert answers[100].error.code == 3


def test_explain_tells_each_step(channel: grpc.Channel) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    asked = access_pb2.ExplainQueueAccessRequest(
        user=user_group_information_pb2.UserGroupInformation(user="testuser1"),
        queue="root.dev.deep.er",
        access=SUBMIT,
    )
    answer = stub.ExplainQueueAccess(asked, timeout=5)
    assert answer.decision.allowed
    assert answer.evaluated_queue == "root.dev.deep"
    assert [(step.queue, step.acl, step.acl_text, step.outcome) for step in answer.steps] == [
        ("root.dev.deep", SUBMIT, "", access_pb2.STEP_OUTCOME_EMPTY),
        ("root.dev.deep", access_pb2.ACCESS_TYPE_ADMIN, "", access_pb2.STEP_OUTCOME_EMPTY),
        ("root.dev", SUBMIT, "alice group1001", access_pb2.STEP_OUTCOME_GROUP),
    ]
    assert list(answer.groups.groups) == ["group1000", "group1001"]
    assert answer.groups.resolver == "test"


def test_list_queues_by_pages(channel: grpc.Channel) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    information = user_group_information_pb2.UserGroupInformation(user="testuser1")

    def page(**fields: Any) -> access_pb2.ListQueuesResponse:
        asked = access_pb2.ListQueuesRequest(user=information, access=SUBMIT, **fields)
        return stub.ListQueues(asked, timeout=5)

    assert list(page().queues) == ["root.dev", "root.dev.deep", "root.open"]
    assert list(page(prefix="ROOT.dev").queues) == ["root.dev", "root.dev.deep"]
    first = page(page_size=2)
    assert list(first.queues) == ["root.dev", "root.dev.deep"]
    last = page(page_size=2, page_token=first.next_page_token)
    assert list(last.queues) == ["root.open"]
    assert last.next_page_token == ""
    with pytest.raises(grpc.RpcError) as caught:
        page(page_size=-1)
    assert violations(caught.value) == ["page_size"]


@pytest.mark.parametrize(
    ("token", "named"),
    [
        ("root.dev", []),
        ("ROOT.dev", []),
        ("root.no.longer.there", []),
        ("dev", ["page_token"]),
        ("root.", ["page_token"]),
        ("root. ", ["page_token"]),
        ("root" + ".x" * 2_046, []),
        ("root" + ".x" * 2_047, ["page_token"]),
    ],
)
def test_page_tokens_are_queue_paths(channel: grpc.Channel, token: str, named: list[str]) -> None:
    stub = access_pb2_grpc.AccessServiceStub(channel)
    asked = access_pb2.ListQueuesRequest(
        user=user_group_information_pb2.UserGroupInformation(user="testuser1"),
        access=SUBMIT,
        page_token=token,
    )
    if named:
        with pytest.raises(grpc.RpcError) as caught:
            stub.ListQueues(asked, timeout=5)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert violations(caught.value) == named
    else:
        expected = ["root.dev", "root.dev.deep", "root.open"]
        after = [queue for queue in expected if queue > token.lower()]
        assert list(stub.ListQueues(asked, timeout=5).queues) == after


def test_resolve_and_invalidate(channel: grpc.Channel) -> None:
    stub = user_groups_pb2_grpc.UserGroupServiceStub(channel)

    def resolve(user: str, **fields: Any) -> user_groups_pb2.ResolveUserGroupsResponse:
        asked = user_groups_pb2.ResolveUserGroupsRequest(user=user, **fields)
        return stub.ResolveUserGroups(asked, timeout=5)

    first = resolve("testuser3")
    assert list(first.user_group.groups) == ["group1001", "group1002", "group1003", "group1004"]
    assert first.outcome == user_groups_pb2.RESOLVE_OUTCOME_RESOLVED
    assert (first.resolver, first.cached, first.stale) == ("test", False, False)
    assert first.expires_at.ToSeconds() > first.resolved_at.ToSeconds()
    assert resolve("testuser3").cached
    assert not resolve("testuser3", bypass_cache=True).cached
    assert resolve("nouser").outcome == user_groups_pb2.RESOLVE_OUTCOME_NOT_FOUND
    assert resolve("testuser5").outcome == user_groups_pb2.RESOLVE_OUTCOME_UNAVAILABLE
    assert list(resolve("bob", partition="gpu").user_group.groups) == ["bob"]
    asked = user_groups_pb2.InvalidateUserGroupsRequest(users=["testuser3", "never-seen"])
    assert stub.InvalidateUserGroups(asked, timeout=5).dropped == 1
    assert not resolve("testuser3").cached
    everyone = user_groups_pb2.InvalidateUserGroupsRequest()
    assert stub.InvalidateUserGroups(everyone, timeout=5).dropped >= 2
    assert not resolve("testuser3").cached


def test_get_policy(channel: grpc.Channel) -> None:
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    answer = stub.GetPolicy(policy_pb2.GetPolicyRequest(), timeout=5)
    assert [queue.path for queue in answer.queues] == [
        "root",
        "root.open",
        "root.dev",
        "root.dev.deep",
    ]
    assert answer.queues[0].admin_acl == "boss"
    assert answer.queues[2].submit_acl == "alice group1001"
    assert answer.revision == 1
    assert len(answer.checksum) == 64
    assert answer.checksum == answer.checksum.upper()
    assert list(answer.partitions) == ["default", "gpu"]
    assert answer.resolver == "test"
    below = stub.GetPolicy(policy_pb2.GetPolicyRequest(prefix="root.dev"), timeout=5)
    assert [queue.path for queue in below.queues] == ["root.dev", "root.dev.deep"]


def test_validate_policy(channel: grpc.Channel) -> None:
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    good = stub.ValidatePolicy(policy_pb2.ValidatePolicyRequest(content=QUEUES), timeout=5)
    assert good.valid
    assert list(good.diagnostics) == []
    bad = QUEUES.replace("adminacl: boss", "adminacl: a b c")
    answer = stub.ValidatePolicy(
        policy_pb2.ValidatePolicyRequest(format="yunikorn", content=bad), timeout=5
    )
    assert not answer.valid
    (finding,) = answer.diagnostics
    assert finding.severity == policy_pb2.SEVERITY_ERROR
    assert (finding.line, finding.column) == (7, 19)
    assert finding.queue == "root"
    assert finding.message
    assert finding.remedy


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["id"])
def test_queue_vectors(document: dict[str, Any], tmp_path: Path) -> None:
    """YuniKorn's answers, through the contract; the deviations are in DEVIATIONS.md."""
    path = tmp_path / "queues.yaml"
    path.write_text(document["yaml"])
    access = {"submit": SUBMIT, "admin": access_pb2.ACCESS_TYPE_ADMIN}
    with (
        running_server("--policy", str(path)) as started,
        grpc.insecure_channel(started.address) as opened,
    ):
        for asked in document["questions"]:
            fields = {key: asked[key] for key in ("user", "queue", "partition")}
            fields["groups"] = tuple(asked["groups"])
            fields["access"] = access[asked["access"]]
            try:
                answer = check(opened, **fields)
                outcome: Any = answer.allowed
                if not asked["groups"] and answer.reason == access_pb2.REASON_GROUP:
                    # No groups in a request means "resolve them": to the user's own name.
                    assert answer.matched_subject == asked["user"]
                    continue
            except grpc.RpcError as error:
                outcome = (error.code(), violations(error))
            expected = asked.get("allowed")
            if asked.get("error") == "partition_not_found":
                expected = (grpc.StatusCode.NOT_FOUND, [])
            elif asked["user"] == "" or (asked["user"] == "*" and asked["groups"]):
                expected = (grpc.StatusCode.INVALID_ARGUMENT, ["user.user"])
            elif asked["queue"].startswith("root.@recovery@.") and asked["access"] == "submit":
                expected = False
            assert outcome == expected, asked
