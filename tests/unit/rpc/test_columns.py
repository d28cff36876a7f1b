"""Columns: the same answers as single checks give, errors where they belong, faults named."""

import asyncio
import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.errors import InvalidRequest, to_status
from queuegate_server.rpc.grid import Grid
from queuegate_server.snapshot import UnknownPartition
from tests.unit.rpc.test_halves import ACCESSES, GROUPS, NAMES, PARTITIONS, QUEUES, a_snapshot

SUBMIT = access_pb2.ACCESS_TYPE_SUBMIT
Request = access_pb2.CheckQueueAccessColumnsRequest
Response = access_pb2.CheckQueueAccessColumnsResponse


def now() -> float:
    return 0.0


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
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    checks = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {}))
    columns = checks.columns
    for request in asked:
        answer = Response.FromString(await columns.answer(request.SerializeToString()))
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
            expected = await _alone(checks, single)
            if isinstance(expected, bytes):
                decision = answer.decisions[place - 1]
                assert place
                assert decision.SerializeToString() == expected
                assert bit == decision.allowed
                assert number not in failures
            else:
                assert failures[number] == expected
                assert (bit, place) == (False, 0)


async def _alone(checks: Checks, single: access_pb2.CheckQueueAccessRequest) -> object:
    """Return the answer to a single check, or the status that it ends with."""
    try:
        return await checks.answer(single.SerializeToString())
    except Exception as error:
        return to_status(error)


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
        ({"user_indexes": [1]}, "user_indexes[0]: is 1, and there are 1"),
        (
            {"user_indexes": [0, 0], "queue_indexes": [0, 4_294_967_295]},
            "queue_indexes[1]: is 4294967295, and there are 1",
        ),
        ({"queues": ["root"] * 10_001}, "queues: has more than 10000 entries"),
        (
            {"user_indexes": [0] * 100_001, "queue_indexes": [0] * 100_001},
            "user_indexes: has more than 100000 entries",
        ),
    ],
)
def test_faults_of_the_whole_are_named(changes: dict[str, Any], fault: str) -> None:
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    columns = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})).columns

    async def ask() -> None:
        for before in (None, valid()):
            if before is not None:
                await columns.answer(before)
            with pytest.raises(InvalidRequest) as caught:
                await columns.answer(valid(**changes))
            assert str(caught.value) == fault

    asyncio.run(ask())


@pytest.mark.parametrize("cells", [0, 4])
def test_what_has_no_room_is_answered_all_the_same(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr("queuegate_server.rpc.grid.MAX_CELLS", cells)
    users = [UserGroupInformation(user=name, groups=["dev"]) for name in ("alice", "bob", "eve")]
    fields = {"users": users, "queues": ["root", "root.a"], "user_indexes": [0, 1, 2, 2]}
    request = valid(**fields, queue_indexes=[0, 1, 0, 1], with_decisions=True)
    smaller = valid(queues=["root.b"], with_decisions=True)
    parsed = [Request.FromString(data) for data in (request, smaller, request, smaller)]
    asyncio.run(_compare(parsed))


def test_answers_are_kept_in_rows_at_all() -> None:
    grid = Grid()
    assert grid.select([b"alice"], ["root"], 0.0) is not None
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    columns = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})).columns
    first = asyncio.run(columns.answer(valid()))
    kept = columns._grids.of(snapshot, "default", SUBMIT)
    assert [list(row.numbers) for row in kept._rows.values()] == [[1]]
    assert asyncio.run(columns.answer(valid())) == first


@pytest.mark.parametrize(
    "changes",
    [{"partition": "nowhere"}, {"partition": "[\n]default"}, {"access": 0}, {"access": 77}],
)
def test_nothing_is_kept_of_what_cannot_be_decided(changes: dict[str, Any]) -> None:
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    columns = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})).columns
    asyncio.run(columns.answer(valid()))
    known = dict(columns._grids._grids)
    for _ in range(2):
        answer = Response.FromString(asyncio.run(columns.answer(valid(**changes))))
        assert (answer.allowed, len(answer.errors)) == (b"\0", 1)
    assert columns._grids._grids == known


def test_spellings_of_a_partition_share_what_is_kept() -> None:
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    columns = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})).columns
    for spelled in ("", "default", "[rm]default", "[other]default"):
        asyncio.run(columns.answer(valid(partition=spelled)))
    assert len(columns._grids._grids) == 1


def errors() -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, InvalidRequest | UnknownPartition)]


@pytest.mark.parametrize("changes", [{"partition": "nowhere"}, {"queues": ["wrong"]}])
def test_errors_leave_no_garbage(changes: dict[str, Any]) -> None:
    engine, snapshot = a_snapshot()
    engine.serve(snapshot)
    columns = Checks(engine, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})).columns
    gc.collect()
    before = errors()  # of parameters of other tests, for example
    gc.disable()
    try:
        asyncio.run(columns.answer(valid(**changes)))
        assert [one for one in errors() if all(one is not other for other in before)] == []
    finally:
        gc.enable()
