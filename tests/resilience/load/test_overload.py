"""Callers who go away leave nothing behind, and more calls than may run are refused."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import queuegate
from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2_grpc
from tests.support.eventually import eventually
from tests.support.fakes.scripted_directory import HANGS, ScriptedDirectory, settings_file
from tests.support.servers import with_constants
from tests.support.servers.admin_port import LISTEN, ops_address, value
from tests.support.servers.busy import Setup, busy_server
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server
from tests.support.sync_stream import sync_request, sync_streams

GROWN = 2 << 20
"""Bytes: 80 for each question of eight rounds."""


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with busy_server(tmp_path) as started:
        yield started


@dataclass(frozen=True)
class Usage:
    """Resources that a server process holds."""

    tasks: int
    threads: int
    files: int


async def usage(setup: Setup, client: queuegate.aio.Client) -> Usage:
    answer = await client.resolve("census", bypass_cache=True)
    tasks = int(answer.groups[0].removeprefix("tasks-"))
    return Usage(tasks, *_threads_and_files(Path(f"/proc/{setup.server.pid}")))


def _threads_and_files(process: Path) -> tuple[int, int]:
    return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))


async def test_callers_who_go_away_leave_nothing_behind(tmp_path: Path) -> None:
    """Deadlines pass and calls are cancelled while the resolver hangs, round after round."""
    with busy_server(tmp_path, lookup_timeout="500ms") as setup:
        await go_away(setup)


async def go_away(setup: Setup) -> None:
    group_queue = next(
        path for path in setup.paths if setup.oracle.needs_groups(path, "submit", "caller")
    )
    setup.directory.answer({"*": {"groups": ["g1"], "seconds": HANGS}})
    address = setup.addresses[0]
    no_retry = queuegate.Retry(attempts=1)
    async with queuegate.aio.Client(address, timeout=60, retry=no_retry) as client:

        async def one_round(number: int) -> None:
            names = [f"caller-{number}-{place}" for place in range(150)]
            late = [client.check(name, group_queue, timeout=0.05) for name in names]
            outcomes = await asyncio.gather(*late, return_exceptions=True)
            kinds = {type(outcome) for outcome in outcomes}
            assert kinds <= {queuegate.DeadlineExceeded, queuegate.GroupsUnavailable}
            gone: list[asyncio.Task[Any]] = [
                asyncio.create_task(client.check(name, group_queue)) for name in names[:50]
            ]
            questions = [queuegate.Check(name, group_queue) for name in names]
            gone += [asyncio.create_task(client.check_many(questions)) for _ in range(5)]
            gone += [asyncio.create_task(client.explain(name, group_queue)) for name in names[:20]]
            gone += [asyncio.create_task(_open_stream(address, names)) for _ in range(5)]
            await asyncio.sleep(0.1)
            for task in gone:
                task.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
            # Nobody else has noticed.
            assert (await client.check("u50", "root", groups=["none"])).reason == "no_match"

        for number in range(8):  # until the pools of memory have their size
            await one_round(number)
        async with asyncio.timeout(90):
            before = await _settled(setup, client)
        grown: list[int] = []
        # A leak grows in each round; memory that an allocator keeps for later does not.
        while len(grown) < 3 and (not grown or grown[-1] >= GROWN):
            memory = setup.server.memory()
            first = 8 * (len(grown) + 1)
            for number in range(first, first + 8):
                await one_round(number)
            async with asyncio.timeout(90):
                after = await _settled(setup, client)
            grown.append(setup.server.memory() - memory)
    assert after.tasks <= before.tasks + 2
    assert after.threads <= before.threads + 2
    assert after.files <= before.files + 2
    assert min(grown) < GROWN, grown


async def _open_stream(address: str, users: list[str]) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        stream = sync_pb2_grpc.SyncServiceStub(channel).Sync()
        await stream.write(sync_request("open", rules=[RULES]))
        for _ in range(3):
            await stream.write(sync_request("want", users=users))
        async for response in stream:
            if response.HasField("user_groups"):
                return


async def _settled(setup: Setup, client: queuegate.aio.Client) -> Usage:
    """Wait until the number of tasks stays the same for a while."""
    last = await usage(setup, client)
    same = 0
    while same < 7:
        await asyncio.sleep(0.1)
        now = await usage(setup, client)
        same = same + 1 if now == last else 0
        last = now
    return last


async def test_work_that_nobody_waits_for_stops_or_is_shared(setup: Setup) -> None:
    queue = next(path for path in setup.paths if setup.oracle.needs_groups(path, "submit", "x"))
    directory = setup.directory
    directory.answer({"*": {"groups": ["none"], "seconds": 0.03}})
    async with queuegate.aio.Client(setup.addresses[1], timeout=60) as client:
        # A lookup that has begun continues; the next caller gets its answer.
        directory.answer({"shared": {"groups": ["none"], "seconds": 0.4}})
        with pytest.raises(queuegate.DeadlineExceeded):
            await client.check("shared", queue, timeout=0.1)
        assert (await client.check("shared", queue)).reason == "no_match"
        assert directory.asked("shared") == 1
        # The lookups of a batch that have not begun never do: few are under way at once.
        questions = [queuegate.Check(f"batched-{number}", queue) for number in range(10_000)]
        with pytest.raises(queuegate.DeadlineExceeded):
            await client.check_many(questions, timeout=0.3)
        begun, same = directory.asked(), 0
        while same < 5:
            await asyncio.sleep(0.1)
            same = same + 1 if directory.asked() == begun else 0
            begun = directory.asked()
        assert begun < 5_000


async def test_more_validations_than_may_wait_are_refused(setup: Setup) -> None:
    queues = "".join(f"{{name: q{number}, submitacl: u{number}}}, " for number in range(1_000))
    content = f"partitions: [{{name: default, queues: [{{name: root, queues: [{queues}]}}]}}]"
    no_retry = queuegate.Retry(attempts=1)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                queuegate.aio.Client(setup.addresses[0], timeout=60, retry=no_retry)
            )
            for _ in range(5)
        ]

        async def outcome(client: queuegate.aio.Client) -> str:
            try:
                return "valid" if await client.validate(content) else "not valid"
            except queuegate.Overloaded as error:
                return error.reason

        waiting = {asyncio.create_task(outcome(client)) for client in clients * 12}
        outcomes: set[str] = set()
        while outcomes != {"valid", "OVERLOADED"}:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            outcomes |= {task.result() for task in done}
        # The others make room by giving up.
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert await outcome(clients[0]) == "valid"


@contextmanager
def bounded_server(folder: Path, directory: ScriptedDirectory) -> Iterator[RunningServer]:
    """Run a server for 8 calls at once, whose directory hangs for all but alice."""
    directory.answer({"*": {"groups": ["staff"], "seconds": HANGS}})
    path = folder / "queues.yaml"
    path.write_text(
        'partitions: [{name: default, queues: [{name: root, submitacl: "alice staff"}]}]'
    )
    settings = {
        "policy": {"path": str(path)},
        "resolvers": {"corp": directory.resolver(lookup_timeout="60s")},
        "partitions": {"default": {"resolver": "corp"}},
        "limits": {"max_concurrent_calls": 8},
    }
    with running_server(
        "--config",
        settings_file(folder, settings),
        *LISTEN,
        *ADMIN,
        environment=directory.environment,
    ) as server:
        yield server


async def test_calls_beyond_the_bound_are_refused(tmp_path: Path) -> None:
    """At once, with a reason; cheap calls and health are answered; and the overload passes."""
    directory = ScriptedDirectory(tmp_path)
    no_retry = queuegate.Retry(attempts=1)
    with bounded_server(tmp_path, directory) as server:
        async with queuegate.aio.Client(server.address, timeout=60, retry=no_retry) as client:
            held = [
                asyncio.create_task(client.check(f"user-{number}", "root")) for number in range(8)
            ]
            await asyncio.to_thread(eventually, directory.asked, 8)
            for number in range(20):
                with pytest.raises(queuegate.Overloaded) as caught:
                    await client.check(f"late-{number}", "root", timeout=60)
                assert caught.value.reason == "OVERLOADED"
            assert await client.check("alice", "root")  # whose answer needs no groups
            assert await client.check_health()
            refused = "queuegate_calls_refused_total"
            assert value(ops_address(server), refused, "calls") == 20
            for call in held:
                call.cancel()
            await asyncio.gather(*held, return_exceptions=True)
            # A call makes room when the server closed it, which is after its caller has gone.
            running = partial(value, ops_address(server), "queuegate_calls_in_progress")
            await asyncio.to_thread(eventually, running, 0.0)
            allowed = await asyncio.gather(*(client.check("alice", "root") for _ in range(8)))
            assert all(allowed)


async def test_streams_leave_room_for_single_calls(tmp_path: Path) -> None:
    """The streams of gates are no calls in progress, however many there are."""
    no_retry = queuegate.Retry(attempts=1)
    with (
        bounded_server(tmp_path, ScriptedDirectory(tmp_path)) as server,
        sync_streams(server.address) as opening,
    ):
        ops = ops_address(server)
        held = [opening() for _ in range(10)]
        for stream in held:
            stream.open()
        assert value(ops, "queuegate_sync_streams") == 10
        assert value(ops, "queuegate_calls_in_progress") == 0
        async with queuegate.aio.Client(server.address, timeout=60, retry=no_retry) as client:
            assert (await client.check("alice", "root")).allowed
        held[0].close()
        eventually(lambda: value(ops, "queuegate_sync_streams"), 9.0)


@pytest.mark.parametrize("transport", ["grpcio", "native"])
async def test_an_overload_is_shed(tmp_path: Path, transport: str) -> None:
    """Calls that can be answered in time are, others are refused; health answers as ever."""
    queues = "".join(f"{{name: q{number}, submitacl: '*'}}, " for number in range(10_000))
    path = tmp_path / "queues.yaml"
    path.write_text(
        f"partitions: [{{name: default, queues: [{{name: root, queues: [{queues}]}}]}}]"
    )
    bounds = ("--set", f"transport={transport}")
    hasty = with_constants.environment(dict.fromkeys(with_constants.NO_OVERLOAD, 0.001))
    no_retry = queuegate.Retry(attempts=1)
    with running_server("--policy", str(path), *bounds, *LISTEN, environment=hasty) as server:
        async with queuegate.aio.Client(server.address, timeout=60, retry=no_retry) as client:

            async def ends() -> str:
                try:
                    return "answered" if await client.list_queues("alice") else "wrong"
                except queuegate.Overloaded as error:
                    return error.reason

            asked = [asyncio.create_task(ends()) for _ in range(600)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert await client.check_health()
            outcomes = Counter(await asyncio.gather(*asked))
            assert set(outcomes) == {"answered", "OVERLOADED"}
            waited = value(ops_address(server), "queuegate_calls_refused_total", "waited")
            assert waited == outcomes["OVERLOADED"]
            await asyncio.to_thread(eventually, lambda: asyncio.run(_lists(server)), expected=True)


async def _lists(server: RunningServer) -> bool:
    """Say whether an overload is over."""
    async with queuegate.aio.Client(server.address, timeout=60) as client:
        try:
            return bool(await client.list_queues("alice"))
        except queuegate.Overloaded:
            return False
