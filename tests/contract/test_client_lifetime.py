"""Concurrent use of a client, and the calls that closing it ends."""

import asyncio
import threading

import pytest

import queuegate
from queuegate.exceptions import ClientClosed
from tests.support.client_calls import Ask
from tests.support.fakes.scripted_server import Script, ScriptedServer


async def test_a_closed_client_says_so(ask: Ask) -> None:
    await ask("close")
    await ask("close")
    with pytest.raises(ClientClosed, match="the client is closed"):
        await ask("check", "alice", "root")


def test_closing_ends_blocking_calls(server: ScriptedServer) -> None:
    server.script.gate.clear()
    client = queuegate.Client(server.address, timeout=60)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            client.check("alice", "root")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert server.script.arrived.acquire(timeout=60)
    client.close()
    thread.join(60)
    assert [type(error) for error in errors] == [ClientClosed]
    assert str(errors[0]) == "the client is closed"


async def test_closing_ends_awaited_calls_without_cancelling_the_task(
    server: ScriptedServer,
) -> None:
    server.script.gate.clear()
    client = queuegate.aio.Client(server.address, timeout=60)
    task = asyncio.create_task(client.check("alice", "root"))
    await _arrival(server.script)
    await client.close()
    with pytest.raises(ClientClosed, match="the client is closed") as caught:
        await task
    assert caught.value.code == "CANCELLED"


async def test_a_cancelled_task_is_cancelled(server: ScriptedServer) -> None:
    server.script.gate.clear()
    async with queuegate.aio.Client(server.address, timeout=60) as client:
        task = asyncio.create_task(client.check("alice", "root"))
        await _arrival(server.script)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.check("alice", "root"), 0.1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.check("alice", "root")
        server.script.gate.set()
        assert await client.check("alice", "root")


def test_an_asyncio_client_needs_a_loop_and_keeps_to_it(server: ScriptedServer) -> None:
    with pytest.raises(RuntimeError, match="inside a running event loop"):
        queuegate.aio.Client(server.address)

    async def make() -> queuegate.aio.Client:
        return queuegate.aio.Client(server.address)

    async def use(client: queuegate.aio.Client) -> None:
        await client.check("alice", "root")

    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = first.run(make())
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            second.run(use(client))
        first.run(client.close())


def test_threads_share_one_client(server: ScriptedServer) -> None:
    wrong: list[str] = []

    def work(client: queuegate.Client, number: int) -> None:
        for turn in range(50):
            user = f"{'denied' if turn % 2 else 'user'}-{number}-{turn}"
            decision = client.check(user, "root")
            if decision.allowed != (turn % 2 == 0) or decision.matched_subject not in {user, ""}:
                wrong.append(user)

    with queuegate.Client(server.address, timeout=60) as client:
        threads = [threading.Thread(target=work, args=(client, number)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(server.script.calls) == 16 * 50
    assert len({call.peer for call in server.script.calls}) == 1  # one connection


async def test_tasks_share_one_client(server: ScriptedServer) -> None:
    async with queuegate.aio.Client(server.address, timeout=60) as client:
        users = [f"{'denied' if number % 3 else 'user'}-{number}" for number in range(300)]
        decisions = await asyncio.gather(*(client.check(user, "root") for user in users))
    for user, decision in zip(users, decisions, strict=True):
        assert decision.allowed == user.startswith("user")
        assert decision.matched_subject == (user if decision.allowed else "")


async def _arrival(script: Script) -> None:
    assert await asyncio.to_thread(script.arrived.acquire, timeout=60)
