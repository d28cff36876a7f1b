"""Bad input over a real socket: each field that is wrong is named."""

from typing import Any

import grpc
import pytest

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    user_group_information_pb2,
)
from tests.support.batch_results import with_errors
from tests.support.servers.contract import SUBMIT, check, raw, request, violations

pytestmark = pytest.mark.both_transports


@pytest.mark.parametrize("partition", ["nowhere", "DEFAULT", "GPU", "[rm-1]", "[gpu", " "])
def test_unknown_partition(channel: grpc.Channel, partition: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, partition=partition)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "default, gpu" in (caught.value.details() or "")
    assert violations(caught.value) == []


LONG = "x" * 1_025
BAD_FIELDS: list[tuple[dict[str, Any], list[str]]] = [
    ({"user": ""}, ["user.user"]),
    ({"user": LONG}, ["user.user"]),
    ({"user": "é" * 513}, ["user.user"]),
    ({"user": "a\x00"}, ["user.user"]),
    ({"user": "a\nb"}, ["user.user"]),
    ({"user": "a b", "groups": ("g",)}, ["user.user"]),
    ({"groups": ("g", "")}, ["user.groups[1]"]),
    ({"groups": ("g", LONG, "h\x1b")}, ["user.groups[1]", "user.groups[2]"]),
    ({"groups": ("g",) * 10_001}, ["user.groups"]),
    ({"partition": LONG}, ["partition"]),
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
    ({"real_user": LONG}, ["real_user"]),
    ({"real_user": "a\nb"}, ["real_user"]),
    (
        {"user": "", "queue": "", "access": 0, "partition": "\x7f"},
        ["partition", "user.user", "queue", "access"],
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
    [
        {"user": "x" * 1_024},
        {"user": f"system:serviceaccount:{'n' * 63}:{'a' * 253}", "groups": ("g" * 1_024,)},
        {"queue": "root" + ".a" * 2046},
        {"groups": ("g",) * 10_000},
    ],
    ids=["user", "service account", "queue", "groups"],
)
def test_the_longest_fields_are_fine(channel: grpc.Channel, fields: dict[str, Any]) -> None:
    assert check(channel, **{"queue": "root.open", **fields}) is not None


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
        (
            "AccessService",
            "CheckQueueAccess",
            b"\x0a\x03\x0a\x01a\x1a\x04root\x20\x01\x2a\x01\xff",
            ["real_user"],
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


WRONG = request(user="", queue="", groups=("", "\x01")).SerializeToString()
WRONG_APPLICATION = access_pb2.CheckApplicationAccessRequest(
    action=access_pb2.APPLICATION_ACTION_MOVE
).SerializeToString()
OTHERS = [request(partition=f"p{n}").SerializeToString() for n in range(2)]


@pytest.mark.parametrize(
    ("method", "items", "distinct"),
    [
        ("BatchCheckQueueAccess", [WRONG] * 10_000, 1),
        ("BatchCheckQueueAccess", [*OTHERS, WRONG] * 3_000, 3),
        ("BatchCheckQueueAccess", [IN_USER, b"\x0a"] * 5_000, 2),
        ("BatchCheckApplicationAccess", [WRONG_APPLICATION] * 10_000, 1),
    ],
)
def test_an_error_of_many_is_sent_once(
    channel: grpc.Channel, method: str, items: list[bytes], distinct: int
) -> None:
    data = b"".join(b"\x0a" + len(item).to_bytes(1, "big") + item for item in items)
    answer = raw(channel, "AccessService", method, data)
    assert len(answer) < 12 * len(items)
    kind: Any = getattr(access_pb2, f"{method}Response")
    results = kind.FromString(answer).results
    assert [result.WhichOneof("outcome") for result in results[:distinct]] == ["error"] * distinct
    assert {result.WhichOneof("outcome") for result in results[distinct:]} == {"same_error_as"}
    single = method.removeprefix("Batch")
    for item, result in zip(items[:10], with_errors(results), strict=False):
        with pytest.raises(grpc.RpcError) as caught:
            raw(channel, "AccessService", single, item)
        assert caught.value.details() == result.error.message


def test_an_application_that_is_no_message_fails_alone(channel: grpc.Channel) -> None:
    data = b"".join(b"\x0a" + bytes([len(item)]) + item for item in (WRONG_APPLICATION, IN_USER))
    answer = raw(channel, "AccessService", "BatchCheckApplicationAccess", data)
    first, second = access_pb2.BatchCheckApplicationAccessResponse.FromString(answer).results
    assert "action" not in first.error.message
    assert second.error.message == "user.user: must be UTF-8"


@pytest.mark.parametrize("count", [10_000, 10_001])
def test_the_size_of_a_batch_is_bounded(channel: grpc.Channel, count: int) -> None:
    batch = access_pb2.BatchCheckQueueAccessRequest(
        checks=[request(user=f"u{i}") for i in range(count)]
    )
    stub = access_pb2_grpc.AccessServiceStub(channel)
    if count > 10_000:
        with pytest.raises(grpc.RpcError) as caught:
            stub.BatchCheckQueueAccess(batch, timeout=60)
        assert violations(caught.value) == ["checks"]
    else:
        results = stub.BatchCheckQueueAccess(batch, timeout=60).results
        assert [result.decision.allowed for result in results] == [True] * count


def test_a_message_over_the_limit_is_refused(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        check(channel, queue="root." + "x" * (5 << 20))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


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
            stub.ListQueues(asked, timeout=60)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert violations(caught.value) == named
    else:
        expected = ["root.dev", "root.dev.deep", "root.open"]
        after = [queue for queue in expected if queue > token.lower()]
        assert list(stub.ListQueues(asked, timeout=60).queues) == after
