"""Columns: the same answers as single checks give, errors where they belong, faults named."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import UnknownPartition
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.errors import InvalidRequest, to_status
from tests.support.snapshots import serving
from tests.unit.rpc.test_checks import ACCESSES, GROUPS, NAMES, PARTITIONS, QUEUES

SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT
Request = access_pb2.CheckQueueAccessColumnsRequest
Response = access_pb2.CheckQueueAccessColumnsResponse


@st.composite
def requests(draw: st.DrawFn) -> Request:
    users = draw(st.lists(st.tuples(NAMES, GROUPS), min_size=1, max_size=3))
    queues = draw(st.lists(QUEUES, min_size=1, max_size=3))
    pairs = draw(
        st.lists(
            st.tuples(st.integers(0, len(users) - 1), st.integers(0, len(queues) - 1)),
            min_size=1,
            max_size=20,
        )
    )
    return Request(
        partition=draw(PARTITIONS),
        access=draw(st.sampled_from(ACCESSES)),
        users=[UserGroupInformation(user=user, groups=groups) for user, groups in users],
        queues=queues,
        user_indexes=[user for user, _ in pairs],
        queue_indexes=[queue for _, queue in pairs],
        with_decisions=True,
    )


@settings(max_examples=200)
@given(asked=st.lists(requests(), min_size=1, max_size=3))
def test_columns_answer_as_single_checks_do(asked: list[Request]) -> None:
    asyncio.run(_compare([*asked, *asked]))


async def _compare(asked: list[Request]) -> None:
    _, access = serving()
    for request in asked:
        answer = Response.FromString(
            await access.CheckQueueAccessColumns(request.SerializeToString(), trusted=True)
        )
        assert answer.policy_revision == 1
        assert len(answer.allowed) == (len(request.user_indexes) + 7) // 8
        failures = {n: error.error for error in answer.errors for n in error.questions}
        pairs = zip(request.user_indexes, request.queue_indexes, strict=True)
        for number, (user, queue) in enumerate(pairs):
            single = access_pb2.CheckQueueAccessRequest(
                user=request.users[user],
                partition=request.partition,
                queue=request.queues[queue],
                access=request.access,
            )
            bit = bool(answer.allowed[number // 8] >> number % 8 & 1)
            place = answer.decision_indexes[number]
            expected = await _alone(access, single)
            if isinstance(expected, bytes):
                decision = answer.decisions[place - 1]
                assert place
                assert decision.SerializeToString() == expected
                assert bit == decision.allowed
                assert number not in failures
            else:
                assert failures[number] == expected
                assert (bit, place) == (False, 0)


async def _alone(access: AccessServicer, single: access_pb2.CheckQueueAccessRequest) -> object:
    """Return the answer to a single check, or the status that it ends with."""
    try:
        return await access.CheckQueueAccess(single.SerializeToString(), trusted=True)
    except Exception as error:
        return to_status(error).proto


def valid(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "access": SUBMIT,
        "users": [UserGroupInformation(user="alice")],
        "queues": ["root"],
        "user_indexes": [0],
        "queue_indexes": [0],
    }
    return Request(**{**fields, **changes}).SerializeToString()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"users": []}, "users: is empty"),
        ({"queues": []}, "queues: is empty"),
        ({"user_indexes": [], "queue_indexes": []}, "user_indexes: is empty"),
        ({"user_indexes": [0, 0]}, "queue_indexes: has 1 entries, and user_indexes has 2"),
        ({"user_indexes": [1]}, "user_indexes[0]: is 1, must be less than 1"),
        (
            {"user_indexes": [0, 0], "queue_indexes": [0, 4_294_967_295]},
            "queue_indexes[1]: is 4294967295, must be less than 1",
        ),
        ({"queues": ["root"] * 10_001}, "queues: has more than 10000 entries"),
        (
            {"user_indexes": [0] * 100_001, "queue_indexes": [0] * 100_001},
            "user_indexes: has more than 100000 entries",
        ),
    ],
)
def test_faults_of_the_whole_are_named(changes: dict[str, Any], fault: str) -> None:
    _, access = serving()

    async def ask() -> None:
        for before in (None, valid()):
            if before is not None:
                await access.CheckQueueAccessColumns(before, trusted=True)
            with pytest.raises(InvalidRequest) as caught:
                await access.CheckQueueAccessColumns(valid(**changes), trusted=True)
            assert str(caught.value) == fault

    asyncio.run(ask())


def errors() -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, InvalidRequest | UnknownPartition)]


@pytest.mark.parametrize("changes", [{"partition": "nowhere"}, {"queues": ["wrong"]}])
def test_errors_leave_no_garbage(changes: dict[str, Any]) -> None:
    _, access = serving()
    gc.collect()
    before = errors()  # of parameters of other tests, for example
    gc.disable()
    try:
        asyncio.run(access.CheckQueueAccessColumns(valid(**changes), trusted=True))
        assert [one for one in errors() if all(one is not other for other in before)] == []
    finally:
        gc.enable()


def test_long_users_that_begin_alike_are_distinguished() -> None:
    common = [f"group{number}" for number in range(100)]
    request = Request(
        access=SUBMIT,
        users=[
            UserGroupInformation(user="alice", groups=[*common, last])
            for last in ("dev", "none", "ops", "dev\n")
        ],
        queues=["root", "root.a", "root.a" + ".x" * 300],
        user_indexes=[number // 3 for number in range(12)],
        queue_indexes=[number % 3 for number in range(12)],
        with_decisions=True,
    )
    asyncio.run(_compare([request, request]))


@pytest.mark.parametrize(
    "long",
    [
        {"users": [UserGroupInformation(user="alice", groups=["g" * 200] * 5_000)]},
        {"users": [UserGroupInformation(user="alice", groups=["g" * 200] * 4_999 + [""])]},
        {"partition": "p" * 1_000_000},
    ],
)
def test_long_texts_are_not_copied_for_each_pair(long: dict[str, Any]) -> None:
    pairs = 500  # half a gigabyte, if they were
    data = valid(
        queues=[f"root.q{number}" for number in range(pairs)],
        user_indexes=[0] * pairs,
        queue_indexes=range(pairs),
        **long,
    )
    _, access = serving()
    tracemalloc.start()
    try:
        asyncio.run(access.CheckQueueAccessColumns(data, trusted=True))
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data)
    finally:
        tracemalloc.stop()
