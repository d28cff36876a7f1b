"""`check_many` with columns: the same results as one by one, and as with an older server."""

import random
from collections.abc import Callable, Iterator

import pytest

import queuegate
from queuegate import Check
from tests.client_calls import Ask
from tests.fakes.scripted_server import ScriptedServer
from tests.running import RunningServer, running_server

POLICY = """
partitions:
  - name: default
    usergroupresolver: {type: test}
    queues:
      - name: root
        queues:
          - {name: a, submitacl: "testuser1 group1001"}
          - {name: open, submitacl: "*"}
"""


@pytest.fixture(scope="module")
def server(over: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path = tmp_path_factory.mktemp("policy") / "queues.yaml"
    path.write_text(POLICY)
    with running_server("--policy", str(path)) as started:
        yield started


def many() -> list[Check]:
    rng = random.Random(7)
    users = ["testuser1", "testuser2", "testuser3", "testuser5", "nobody", "x" * 300]
    groups = [(), ("group1001",), ("other",)]
    queues = ["root.a", "ROOT.A.new", "root.open", "not a path", "root.@recovery@"]
    return [
        Check(rng.choice(users), rng.choice(queues), groups=rng.choice(groups)) for _ in range(500)
    ]


def alone(client: queuegate.Client, check: Check) -> object:
    try:
        return client.check(check.user, check.queue, groups=check.groups)
    except queuegate.QueuegateError as error:
        return type(error), error.code


def told(result: object) -> object:
    if isinstance(result, queuegate.CheckFailure):
        return type(result.error), result.error.code
    return result


def test_columns_are_as_single_checks(server: RunningServer) -> None:
    checks = many()
    with queuegate.Client(server.address, timeout=20) as client:
        expected = {check: alone(client, check) for check in dict.fromkeys(checks)}
        results = client.check_many(checks)
        assert client._has_columns
    assert [told(result) for result in results] == [expected[check] for check in checks]
    assert len({id(result) for result in results}) < len(results)


async def test_columns_for_asyncio(server: RunningServer) -> None:
    checks = many()
    with queuegate.Client(server.address, timeout=20) as client:
        expected = [told(result) for result in client.check_many(checks)]
    async with queuegate.aio.Client(server.address, timeout=20) as client:
        assert [told(result) for result in await client.check_many(checks)] == expected


def test_questions_of_two_kinds_go_as_batches(server: RunningServer) -> None:
    checks = [Check("testuser1", "root.a", access=access) for access in ("submit", "admin") * 50]
    with queuegate.Client(server.address, timeout=20) as client:
        results = client.check_many(checks)
    assert [bool(result) for result in results] == [True, False] * 50


def test_questions_for_a_proxy_user_go_as_batches() -> None:
    checks = [Check("alice", "root.a")] * 99 + [Check("alice", "root.a", real_user="hive")]
    with ScriptedServer() as server, queuegate.Client(server.address, timeout=20) as client:
        client.check_many(checks)
        [batch] = server.script.requests("BatchCheckQueueAccess")
    assert [check.real_user for check in batch.checks] == [check.real_user for check in checks]


async def test_an_older_server_is_asked_by_batches(connect: Callable[..., Ask]) -> None:
    checks = [Check("alice", "root.a")] * 100
    with ScriptedServer() as older:
        ask = connect(older.address, timeout=20)
        assert all(await ask("check_many", checks))
        assert all(await ask("check_many", checks))
        assert len(older.script.requests("CheckQueueAccessColumns")) == 1
        assert len(older.script.requests("BatchCheckQueueAccess")) == 2
