"""The native transport with callers who read long answers, and one who does not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from queuegate_server.settings.limits import Limits
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.native.server import NativeServer
from queuegate_server.transports.stalls import Refusal
from tests.resilience import http2

SERVICE = "queuegate.v1.AccessService"
ANSWER = bytes(300_000)
NO_WINDOW = http2.PREFACE + http2.frame(http2.SETTINGS, payload=b"\0\4\0\0\0\0")
UNREAD = 8
SECONDS = 60


@pytest.fixture
def budget() -> ByteBudget:
    return ByteBudget(4 * len(ANSWER))


@pytest.fixture
def peers() -> list[str]:
    """Who called."""
    return []


@pytest.fixture
async def address(budget: ByteBudget, peers: list[str]) -> AsyncIterator[str]:
    async def answer(data: bytes, context: Any) -> bytes:
        peers.append(context.peer())
        return ANSWER

    server = NativeServer(Limits(), budget, Refusal("too much", (), {}), shares_port=False)
    server.add_registered_method_handlers(
        SERVICE,
        {
            "GetLong": grpc.unary_unary_rpc_method_handler(answer),
            "CheckQueueAccess": grpc.unary_unary_rpc_method_handler(answer),
        },
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - a sweep of the server makes it true
            await asyncio.sleep(0.01)


def calls(method: str) -> bytes:
    message = b"\0" + bytes(4)
    return b"".join(
        http2.headers(method, stream) + http2.frame(http2.DATA, http2.END_STREAM, stream, message)
        for stream in range(1, 2 * UNREAD, 2)
    )


async def test_whoever_reads_keeps_the_connection(
    address: str, budget: ByteBudget, peers: list[str]
) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        ask: Any = channel.unary_unary(f"/{SERVICE}/GetLong")
        for _ in range(20):
            assert await ask(b"", timeout=SECONDS) == ANSWER
        with http2.connected(address, NO_WINDOW + calls("GetLong")) as silent:
            # Closed by the server, not by a time-out here.
            assert await asyncio.to_thread(http2.is_closed, silent)
        await until(lambda: not budget.taken)
        assert await ask(b"", timeout=SECONDS) == ANSWER
    assert len(peers) == 20 + UNREAD + 1
    assert peers[0] == peers[-1]


async def test_answers_are_counted_until_they_are_read_or_their_caller_has_gone(
    address: str, budget: ByteBudget, peers: list[str]
) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        ask: Any = channel.unary_unary(f"/{SERVICE}/GetLong")
        for number in range(200):
            call = ask(b"", timeout=SECONDS)
            # Some are cancelled at the moment when they are answered.
            await asyncio.sleep(number % 20 / 10_000)
            call.cancel()
        await until(lambda: not budget.taken)
    with http2.connected(address, NO_WINDOW + calls("GetLong")):
        await until(lambda: budget.taken == UNREAD * len(ANSWER))
    await until(lambda: not budget.taken)


async def test_answers_to_single_checks_are_not_counted(
    address: str, budget: ByteBudget, peers: list[str]
) -> None:
    with http2.connected(address, NO_WINDOW + calls("CheckQueueAccess")):
        await until(lambda: len(peers) == UNREAD)
        assert budget.taken == 0
