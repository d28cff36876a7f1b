"""A check is answered alike alone, in a batch, and from the cache."""

import asyncio
from collections.abc import Callable

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Engine, Query, UnknownPartition
from queuegate_server.rpc import messages, validation, wire
from queuegate_server.rpc.errors import InvalidRequest, to_status
from tests.support.batch_results import with_errors
from tests.support.snapshots import servicer, serving

NAMES = st.sampled_from(["alice", "a" * 65, "x" * 300, "", "böb", "a b", "a\nb", "\u2028", "*"])
GROUPS = st.lists(st.sampled_from(["dev", "ops", "", "g\x00", "y" * 300, "gré"]), max_size=3)
NO_GROUPS = st.sampled_from([False, False, True])
QUEUES = st.sampled_from(
    ["root", "ROOT.a", "root.a.b.c", "a", "b", "new", "", "root..a", "root.@recovery@", "a\nb", "ä"]
)
ACCESSES = access_pb2.AccessType.values()
PARTITIONS = st.sampled_from(["", "default", "[rm]default", "yarn", "[rm]yarn", "gpu", "\x00"])
SNAPSHOT = serving()[0].snapshot
REAL_USERS = st.sampled_from(["", "", "", "hive", "oozie", "x" * 300, "a\nb"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    parts = [
        access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(
                user=draw(NAMES), groups=draw(GROUPS), no_groups=draw(NO_GROUPS)
            )
        ),
        access_pb2.CheckQueueAccessRequest(
            queue=draw(QUEUES),
            partition=draw(PARTITIONS),
            access=draw(st.sampled_from(ACCESSES)),
            real_user=draw(REAL_USERS),
        ),
    ]
    if draw(st.booleans()):
        parts.append(parts[0])
    if draw(st.booleans()):
        parts.reverse()
    data = b"".join(part.SerializeToString() for part in parts)
    return data[: draw(st.sampled_from([len(data), len(data), 1, 5]))]


@settings(max_examples=300)
@given(asked=st.lists(requests(), min_size=1, max_size=4), trusted=st.booleans())
def test_all_ways_of_asking_give_one_answer(asked: list[bytes], trusted: bool) -> None:
    async def compare() -> None:
        engine, cached = serving()
        for data in [*asked, *asked]:
            expected = await _decided(engine, data, trusted=trusted)
            for access in (servicer(engine), cached):
                try:
                    found: bytes | str = await access.CheckQueueAccess(data, trusted=trusted)
                except (InvalidRequest, UnknownPartition) as error:
                    found = to_status(error).proto.message
                assert found == expected
            for access in (servicer(engine), cached):
                response = await access.BatchCheckQueueAccess(wire.embed(1, data), trusted=trusted)
                (result,) = access_pb2.BatchCheckQueueAccessResponse.FromString(response).results
                if isinstance(expected, bytes):
                    assert result.decision.SerializeToString() == expected
                else:
                    assert result.error.message == expected

    asyncio.run(compare())


@settings(max_examples=300)
@given(asked=st.lists(requests(), min_size=2, max_size=120), trusted=st.booleans())
def test_checks_in_a_batch_do_not_affect_each_other(asked: list[bytes], trusted: bool) -> None:
    async def compare() -> None:
        engine, access = serving()
        data = b"".join(wire.embed(1, check) for check in asked)
        response = await access.BatchCheckQueueAccess(data, trusted=trusted)
        results = access_pb2.BatchCheckQueueAccessResponse.FromString(response).results
        for check, result in zip(asked, with_errors(results), strict=True):
            expected = await _decided(engine, check, trusted=trusted)
            if isinstance(expected, bytes):
                assert result.decision.SerializeToString() == expected
            else:
                assert result.error.message == expected

    asyncio.run(compare())


async def _decided(engine: Engine, data: bytes, *, trusted: bool) -> bytes | str:
    """Return the response, or the message of the status, without the servicer."""
    try:
        request = wire.parse(access_pb2.CheckQueueAccessRequest, data)
        query = validation.query_field_by_field(request, engine.snapshot, trusted=trusted)
    except (InvalidRequest, UnknownPartition) as error:
        return str(to_status(error).proto.message)
    verdict = engine.check(query) or await engine.resolve_and_check(query)
    message = access_pb2.CheckQueueAccessResponse
    return messages.decision_message(
        message, verdict.decision, verdict.evaluated_queue, 1
    ).SerializeToString()


@settings(max_examples=500)
@given(data=requests(), trusted=st.booleans())
def test_the_names_of_a_check_are_valid_together_if_each_is(data: bytes, *, trusted: bool) -> None:
    try:
        request = access_pb2.CheckQueueAccessRequest.FromString(data)
    except DecodeError:
        return

    def outcome(read: Callable[..., Query]) -> Query | str:
        try:
            return read(request, SNAPSHOT, trusted=trusted)
        except (InvalidRequest, UnknownPartition) as error:
            return str(error)

    assert outcome(validation.query) == outcome(validation.query_field_by_field)


async def test_names_of_yarn_are_no_names_of_yunikorn() -> None:
    _, access = serving()
    for partition, is_valid in (("yarn", True), ("default", False), ("yarn", True)):
        check = access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user="a b", groups=["dev"]),
            partition=partition,
            queue="root.a",
            access=access_pb2.ACCESS_TYPE_SUBMIT,
        )
        response = await access.BatchCheckQueueAccess(
            wire.embed(1, check.SerializeToString()), trusted=True
        )
        (result,) = access_pb2.BatchCheckQueueAccessResponse.FromString(response).results
        assert result.HasField("decision") is is_valid


async def test_one_callers_groups_do_not_answer_another_caller() -> None:
    _, access = serving()
    check = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="eve", groups=["dev"]),
        queue="root",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    ).SerializeToString()
    for trusted in (True, False, True, False):
        response = await access.CheckQueueAccess(check, trusted=trusted)
        allowed = access_pb2.CheckQueueAccessResponse.FromString(response).allowed
        assert allowed is trusted
