"""The clients and the command line against the real server: what the contract promises
must be what callers see.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import Check, CheckFailure, Reason
from queuegate.cli import main
from tests.support.rows import rows
from tests.support.servers.contract import QUEUES
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("client")
    (path / "queues.yaml").write_text(QUEUES)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    listen = (f"unix:{folder}/q.sock", "127.0.0.1:0")
    with running_server("--policy", str(folder / "queues.yaml"), *ADMIN, listen=listen) as started:
        yield started


@pytest.fixture
def address(server: RunningServer, folder: Path) -> str:
    return f"unix:{folder}/q.sock"


@pytest.fixture(params=["blocking", "asyncio"])
async def ask(request: pytest.FixtureRequest, address: str) -> AsyncIterator[Ask]:
    kind = queuegate.Client if request.param == "blocking" else queuegate.aio.Client
    client = kind(address, timeout=60)

    async def call(method: str, *args: Any, **kwargs: Any) -> Any:
        result = getattr(client, method)(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    yield call
    await call("close")


@rows
async def test_decisions(
    ask: Ask,
    args: tuple[str, str],
    options: dict[str, Any],
    allowed: bool,
    reason: Reason,
    queue: str,
    subject: str,
) -> None:
    decision = await ask("check", *args, **options)
    assert bool(decision) is allowed
    assert decision.reason is reason
    if allowed:
        assert (decision.matched_queue, decision.matched_subject) == (queue, subject)
    assert decision.policy_revision == 1
    (same,) = await ask("check_many", [Check(*args, **options)])
    assert same == decision
    explanation = await ask("explain", *args, **options)
    assert explanation.decision == decision
    assert explanation.steps[-1].matched_subject == subject


async def test_a_large_mixed_batch(ask: Ask) -> None:
    checks = [
        Check(f"user{number}", ("root.open", "root.closed", "bad queue")[number % 3], groups=["g"])
        for number in range(12_000)
    ]
    results = await ask("check_many", checks)
    assert len(results) == len(checks)
    for number, result in enumerate(results):
        assert bool(result) is (number % 3 == 0)
        assert isinstance(result, CheckFailure) is (number % 3 == 2)
    failure = results[2].error
    assert isinstance(failure, queuegate.InvalidArgument)
    assert failure.reason == "INVALID_FIELD"
    assert [violation.field for violation in failure.violations] == ["queue"]


async def test_queues(ask: Ask) -> None:
    assert await ask("list_queues", "nobody", groups=["g"]) == ["root.open"]
    listed = await ask("list_queues", "alice", prefix="root.dev", groups=["g"])
    assert listed == ["root.dev", "root.dev.deep"]


async def test_policy_and_validation(ask: Ask) -> None:
    policy = await ask("get_policy", prefix="root.dev")
    assert [queue.path for queue in policy.queues] == ["root.dev", "root.dev.deep"]
    assert policy.queues[0].submit_acl == "alice group1001"
    assert policy.partitions == ("default", "gpu")
    assert policy.loaded_at is not None
    assert policy.loaded_at.tzinfo is not None
    assert await ask("validate", QUEUES)
    refused = await ask("validate", "partitions: []\nnosuch: 1\n")
    assert not refused
    assert refused.diagnostics[0].severity is queuegate.Severity.ERROR


async def test_groups(ask: Ask) -> None:
    resolution = await ask("resolve", "alice", partition="gpu")
    assert resolution
    assert resolution.groups == ("alice",)  # without a resolver: the user's own name
    assert resolution.expires_at is not None
    assert (await ask("invalidate", ["alice"], partition="gpu")).dropped in {0, 1}
    assert (await ask("invalidate", wait=True)).cursor.sequence > 0


async def test_reload_and_health(ask: Ask) -> None:
    result = await ask("reload")
    assert result
    assert result.revision == 1  # the same text
    assert await ask("check_health") is queuegate.HealthStatus.SERVING
    service = "queuegate.v1.AccessService"
    assert await ask("check_health", service) is queuegate.HealthStatus.SERVING
    assert await ask("check_health", "nosuch") is queuegate.HealthStatus.SERVICE_UNKNOWN


async def test_errors(ask: Ask) -> None:
    with pytest.raises(queuegate.UnknownPartition, match="nosuch"):
        await ask("check", "alice", "root", partition="nosuch")
    with pytest.raises(queuegate.InvalidArgument) as caught:
        await ask("check", "x" * 1_025, "rooot")
    assert {violation.field for violation in caught.value.violations} == {"user.user", "queue"}
    with pytest.raises(queuegate.InvalidArgument):
        await ask("get_policy", "default", "not a path")


def test_tcp_and_unix_give_the_same(server: RunningServer, folder: Path) -> None:
    unix, tcp = server.address.split(", ")
    assert unix == f"unix:{folder}/q.sock"
    for address in (tcp, f"unix://{folder}/q.sock"):
        with queuegate.Client(address, timeout=60) as client:
            assert client.check("anyone", "root.open")


def test_threads(address: str) -> None:
    wrong: list[str] = []

    def work(client: queuegate.Client, number: int) -> None:
        for turn in range(100):
            user = "alice" if turn % 2 else f"user{number}"
            decision = client.check(user, "root.dev", groups=["g"])
            if decision.allowed is not (user == "alice"):
                wrong.append(user)

    with queuegate.Client(address, timeout=60) as client:
        threads = [threading.Thread(target=work, args=(client, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


async def test_tasks(address: str) -> None:
    users = ["alice" if number % 2 else f"user{number}" for number in range(1_000)]
    async with queuegate.aio.Client(address, timeout=60) as client:
        decisions = await asyncio.gather(
            *(client.check(user, "root.dev", groups=["g"]) for user in users)
        )
    assert [bool(decision) for decision in decisions] == [user == "alice" for user in users]


@rows
def test_commands(
    address: str, capsys: pytest.CaptureFixture[str], line: str, status: int, text: str
) -> None:
    assert main(["--address", address, "--timeout", "20", *line.split()]) == status
    output, errors = capsys.readouterr()
    assert text in (errors if status == 2 else output)


def test_a_name_that_is_not_in_the_cache_gets_a_hint(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with queuegate.Client(address, timeout=60) as client:
        client.resolve("casey")
    invalidate = ["--address", address, "--timeout", "20", "invalidate"]
    hint = "no such user is in this server's cache; names are case-sensitive\n"
    cases = (("Casey", "0 cached answers", hint), ("casey", "1 cached answer", ""))
    for user, dropped, errors in cases:
        assert main([*invalidate, user]) == 0
        assert capsys.readouterr() == (f"dropped {dropped}\n", errors)


@rows
def test_a_queue_is_suggested(
    address: str, capsys: pytest.CaptureFixture[str], line: str, text: str
) -> None:
    assert main(["--address", address, "--timeout", "20", *line.split(), "--group", "g"]) == 1
    assert text in capsys.readouterr().out


def test_no_queue_is_suggested_to_callers_who_may_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = ("--policy", str(folder / "queues.yaml"))
    with running_server(*policy, "--set", "callers.loopback.roles=[check]") as server:
        line = "check eve root.dve --group g --timeout 20"
        assert main(["--address", server.address, *line.split()]) == 1
    output, errors = capsys.readouterr()
    assert output.endswith("\nroot.dve does not exist; decided at root\n")
    assert errors == ""


def test_a_document(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = "check alice root.dev --output json --timeout 20"
    assert main(["--address", address, *line.split()]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "user": "alice",
        "queue": "root.dev",
        "access": "submit",
        "partition": "default",
        "allowed": True,
        "reason": "user",
        "matched_queue": "root.dev",
        "matched_subject": "alice",
        "policy_revision": 1,
        "evaluated_queue": "",
    }


def test_a_server_that_stops_and_starts_again(folder: Path) -> None:
    arguments = ("--policy", str(folder / "queues.yaml"))
    listen = (f"unix:{folder}/again.sock",)
    with queuegate.Client(listen[0], timeout=60) as client:
        with running_server(*arguments, listen=listen):
            assert client.check("anyone", "root.open")
        with pytest.raises(queuegate.ServerUnavailable):
            client.check("anyone", "root.open")
        with running_server(*arguments, listen=listen):
            found = threading.Event()
            for _ in range(200):
                try:
                    assert client.check("anyone", "root.open")
                except queuegate.ServerUnavailable:
                    found.wait(0.05)
                else:
                    return
    pytest.fail("the server that came back was not found")


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
async def test_a_request_over_the_limit_of_the_server(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = [f"group{number}" for number in range(1_000)]
    checks = [Check("alice", "root", groups=[group]) for group in groups]
    with running_server("--set", "limits.max_message=4KiB") as small:
        client: Any = (queuegate.Client if kind == "blocking" else queuegate.aio.Client)(
            small.address, timeout=60
        )

        async def ask(method: str, *args: Any, **options: Any) -> Any:
            result = getattr(client, method)(*args, **options)
            return await result if inspect.isawaitable(result) else result

        with pytest.raises(queuegate.RequestRejected, match=r"limits\.max_message"):
            await ask("check", "alice", "root", groups=groups)
        with pytest.raises(queuegate.MessageTooLarge, match=r"limits\.max_message"):
            await ask("check_many", checks)
        await ask("close")
        asked = ["--address", small.address, "--timeout", "60", "check", "alice", "root"]
        asked += [part for group in groups for part in ("--group", group)]
        assert main(asked) == 2
        remedy = "send less at a time, or raise the server's limits.max_message"
        assert remedy in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gpu", "default"])
def test_the_only_partition_needs_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = "partitions: [{name: %s, queues: [{name: root, submitacl: sue}]}]"
    (tmp_path / "queues.yaml").write_text(text % name)
    with running_server("--policy", str(tmp_path / "queues.yaml"), *ADMIN) as server:
        for command in (["policy"], ["tree"], ["tree", "--user", "sue"]):
            assert main([*command, "--address", server.address, "-o", "json"]) == 0
            document = json.loads(capsys.readouterr().out)
            assert document["partition"] == name
            assert document["queues"][0]["submit_acl"] == "sue"
        assert main(["policy", "--partition", "x", "--address", server.address]) == 2
        assert (
            f"partition 'x' does not exist; partitions are: {name}; choose one with"
            in capsys.readouterr().err
        )
        with queuegate.Client(server.address, timeout=30) as client:
            assert client.get_policy("").partitions == (name,)


def test_one_of_several_partitions_needs_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = "{name: %s, queues: [{name: root}]}"
    text = f"partitions: [{partition % 'gpu'}, {partition % 'cpu'}]"
    (tmp_path / "queues.yaml").write_text(text)
    with running_server("--policy", str(tmp_path / "queues.yaml"), *ADMIN) as server:
        for command in ("policy", "tree"):
            assert main([command, "--address", server.address]) == 2
            message = "partition 'default' does not exist; partitions are: cpu, gpu"
            assert message in capsys.readouterr().err
