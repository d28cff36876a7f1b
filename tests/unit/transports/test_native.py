"""The native transport with handlers of a test: cases that no request of the contract causes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from queuegate_server.settings.limits import Limits
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.native.server import NativeContext, NativeServer
from queuegate_server.transports.stalls import Refusal

SERVICE = "test.Service"


async def echo(data: bytes, _context: Any) -> bytes:
    return data


async def wait_for_what_is_cancelled(_data: bytes, _context: Any) -> bytes:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
    return b""


async def fail(_data: bytes, _context: Any) -> bytes:
    raise ValueError("secret")


async def wait_first(data: bytes, _context: Any) -> bytes:
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.sleep(0.001)
    return data


async def abort(_data: bytes, context: Any) -> bytes:
    await context.abort(grpc.StatusCode.NOT_FOUND, "näh", (("x-k", "v"),))
    return b""


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    methods = [echo, wait_for_what_is_cancelled, fail, wait_first, abort]
    server = NativeServer(
        Limits(max_message=1_024), ByteBudget(1), Refusal("too much", (), {}), shares_port=False
    )
    server.add_registered_method_handlers(
        SERVICE,
        {method.__name__: grpc.unary_unary_rpc_method_handler(method) for method in methods},
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened
    await server.stop(None)


async def ended(channel: grpc.aio.Channel, method: str, data: bytes) -> object:
    """Return the answer to a call, or the status and the text that it ends with."""
    call: Any = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        return await call(data, timeout=60)
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details()


async def test_each_call_ends_as_it_should_whatever_concurrent_calls_do(
    channel: grpc.aio.Channel,
) -> None:
    ends = {
        "echo": b"odd",
        "wait_for_what_is_cancelled": ("UNAVAILABLE", "the server is shutting down"),
        "fail": ("INTERNAL", "internal error"),
        "wait_first": b"odd",
        "abort": ("NOT_FOUND", "näh"),
    }
    found = await asyncio.gather(*(ended(channel, method, b"odd") for method in [*ends] * 10))
    assert found == [*ends.values()] * 10


def test_a_context_does_not_show_credentials() -> None:
    context = NativeContext(((("authorization", "Bearer secret"),), "ipv4:127.0.0.1:1", None), 0.0)
    assert context.invocation_metadata() == (("authorization", "Bearer secret"),)
    assert "secret" not in repr(context)
