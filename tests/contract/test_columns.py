"""`check_many` with columns: the same results as one by one, and as with an older server."""

import dataclasses
import random
from collections.abc import Callable, Iterator

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queuegate
from queuegate import Check, _columns
from queuegate.v1 import access_pb2
from tests.support.client_calls import Ask
from tests.support.fakes.scripted_server import Fault, ScriptedServer
from tests.support.servers.queuegate_server import RunningServer, running_server

pytestmark = pytest.mark.both_transports

POLICY = """
partitions:
  - name: default
    usergroupresolver: {type: test}
    queues:
      - name: root
        queues:
          - {name: a, submitacl: "testuser1 group1001"}
          - {name: open, submitacl: "*"}
  - name: gpu
    usergroupresolver: {type: test}
    queues:
      - name: root
        queues:
          - {name: a, adminacl: "testuser2"}
"""
USERS = ["testuser1", "testuser2", "testuser3", "testuser5", "nobody", "x" * 300]
GROUPS = [(), ("group1001",), ("other",)]
QUEUES = ["root.a", "ROOT.A.new", "root.open", "not a path", "root.@recovery@"]
ONES = st.builds(
    Check,
    st.sampled_from(USERS),
    st.sampled_from(QUEUES),
    st.sampled_from(["default", "gpu", "absent"]),
    st.sampled_from(["submit", "admin"]),
    st.sampled_from(GROUPS),
    st.sampled_from(["", "", "hive"]),
)
MIXED = st.lists(ONES, min_size=1, max_size=8).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=20, max_size=60)
)


@pytest.fixture(scope="module")
def server(
    module_transport: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("policy") / "queues.yaml"
    path.write_text(POLICY)
    with running_server("--policy", str(path)) as started:
        yield started


def many() -> list[Check]:
    rng = random.Random(7)
    return [
        Check(rng.choice(USERS), rng.choice(QUEUES), groups=rng.choice(GROUPS)) for _ in range(500)
    ]


def alone(client: queuegate.Client, check: Check) -> object:
    try:
        return client.check(**dataclasses.asdict(check))
    except queuegate.QueuegateError as error:
        return type(error), error.code


def comparable(result: object) -> object:
    if isinstance(result, queuegate.CheckFailure):
        return type(result.error), result.error.code
    return result


def test_columns_are_as_single_checks(server: RunningServer) -> None:
    checks = many()
    with queuegate.Client(server.address, timeout=60) as client:
        expected = {check: alone(client, check) for check in dict.fromkeys(checks)}
        results = client.check_many(checks)
        assert client._has_columns
    assert [comparable(result) for result in results] == [expected[check] for check in checks]
    assert len({id(result) for result in results}) < len(results)


async def test_columns_for_asyncio(server: RunningServer) -> None:
    checks = many()
    with queuegate.Client(server.address, timeout=60) as client:
        expected = [comparable(result) for result in client.check_many(checks)]
    async with queuegate.aio.Client(server.address, timeout=60) as client:
        assert [comparable(result) for result in await client.check_many(checks)] == expected


@settings(max_examples=30, deadline=None)
@given(checks=MIXED)
def test_mixed_questions_are_as_single_checks(server: RunningServer, checks: list[Check]) -> None:
    with pytest.MonkeyPatch.context() as patch, queuegate.Client(server.address, timeout=60) as one:
        patch.setattr(_columns, "MIN_QUESTIONS", 2)
        patch.setattr(_columns, "MIN_MIXED_QUESTIONS", 4)
        results = [comparable(result) for result in one.check_many(checks)]
        expected = {check: alone(one, check) for check in dict.fromkeys(checks)}
        assert results == [expected[check] for check in checks]
        assert one._has_columns


async def test_columns_and_batches_share_the_questions(
    connect: Callable[..., Ask], server: RunningServer
) -> None:
    few = [Check("testuser2", "root.a", "gpu", access) for access in ("submit", "admin")]
    proxy = Check("testuser1", "root.a", real_user="hive")
    checks = [*[Check("testuser1", "root.a"), Check("nobody", "root.a", "gpu")] * 512, *few, proxy]
    ask = connect(server.address, timeout=60)
    results = await ask("check_many", checks)
    assert [bool(result) for result in results] == [*[True, False] * 512, True, True, True]


async def test_an_older_server_is_asked_by_batches(connect: Callable[..., Ask]) -> None:
    checks = [Check("alice", "root.a"), Check("denied", "root.a", "gpu")] * 600
    with ScriptedServer() as older:
        ask = connect(older.address, timeout=60)
        for _ in range(2):
            results = await ask("check_many", checks)
            assert [bool(result) for result in results] == [True, False] * 600
        assert len(older.script.requests("CheckQueueAccessColumns")) == 1
        assert len(older.script.requests("BatchCheckQueueAccess")) == 2


async def test_a_batch_that_fails_ends_all(connect: Callable[..., Ask]) -> None:
    checks = [*[Check("alice", "root.a")] * 512, Check("alice", "root.a", "gpu")]
    with ScriptedServer() as server:
        ask = connect(server.address, timeout=60)
        server.script.answers["CheckQueueAccessColumns"] = (
            access_pb2.CheckQueueAccessColumnsResponse(
                decisions=[access_pb2.CheckQueueAccessResponse(allowed=True)],
                decision_indexes=[1] * 512,
            )
        )
        server.script.fail("BatchCheckQueueAccess", Fault(grpc.StatusCode.INTERNAL))
        with pytest.raises(queuegate.ServerError):
            await ask("check_many", checks)
        methods = [call.method for call in server.script.calls]
    assert methods == ["CheckQueueAccessColumns", "BatchCheckQueueAccess"]
