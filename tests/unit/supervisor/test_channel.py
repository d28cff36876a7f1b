"""The two ends of the channel, over a real pair of sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from queuegate_server.supervisor import channel as module
from queuegate_server.supervisor.channel import Channel, ChannelError


async def echo(value: Any) -> Any:
    return value


async def refuse(_value: Any) -> None:
    raise ChannelError("no")


async def fail(_value: Any) -> None:
    raise ValueError("secret")


async def hang(_value: Any) -> None:
    await asyncio.Event().wait()


HANDLERS = {"echo": echo, "refuse": refuse, "fail": fail, "hang": hang}


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Channel, socket.socket]]:
    """Yield an end of a channel, and the bare socket of the other one."""
    ours, theirs = socket.socketpair()
    one = Channel(HANDLERS, lambda: None)
    await one.open(ours)
    yield one, theirs
    one.close()
    theirs.close()


@pytest.fixture
async def pair(ends: tuple[Channel, socket.socket]) -> AsyncIterator[tuple[Channel, Channel]]:
    one, theirs = ends
    other = Channel(HANDLERS, lambda: None)
    await other.open(theirs)
    yield one, other
    other.close()


async def test_both_ends_ask_at_once(pair: tuple[Channel, Channel]) -> None:
    texts = [f"{number} \n\u2028 {'x' * number * 100}" for number in range(100)]
    answers = await asyncio.gather(
        *(end.request("echo", text, seconds=20) for end in pair for text in texts)
    )
    assert answers == texts + texts


@pytest.mark.parametrize(
    ("name", "expected"),
    [("refuse", "no"), ("fail", "unexpected ValueError"), ("nothing", "unexpected KeyError")],
)
async def test_refusals(pair: tuple[Channel, Channel], name: str, expected: str) -> None:
    with pytest.raises(ChannelError, match=f"^{expected}$"):
        await pair[0].request(name, seconds=20)


async def test_no_answer(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(ChannelError, match="no answer within"):
        await pair[0].request("hang", seconds=0.01)
    assert pair[0]._pending == {}


async def test_pending_requests_fail_when_the_channel_closes(pair: tuple[Channel, Channel]) -> None:
    waiting = asyncio.create_task(pair[0].request("hang", seconds=60))
    await asyncio.sleep(0)
    pair[1].close()
    with pytest.raises(ChannelError, match="closed"):
        await waiting
    with pytest.raises(ChannelError, match="closed"):
        await pair[0].request("echo", seconds=1)


async def test_a_message_that_is_too_long(pair: tuple[Channel, Channel]) -> None:
    with pytest.raises(ChannelError, match="too long"):
        await pair[0].request("echo", "x" * module.MAX_MESSAGE_BYTES, seconds=20)


async def test_an_end_that_does_not_read(ends: tuple[Channel, socket.socket]) -> None:
    one, _ = ends
    waiting = [
        asyncio.create_task(one.request("echo", "x" * (module.MAX_MESSAGE_BYTES // 2), seconds=60))
        for _ in range(10)
    ]
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION, timeout=60)
    assert "is not reading" in str(next(iter(done)).exception())
    for task in pending:
        task.cancel()
    await asyncio.wait(waiting)


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\0\0\0\1{", b"\0\0", b"\0\0\0\2[]", b"\0\0\0\2{}"]
)
async def test_garbage_ends_the_channel(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    closed = asyncio.Event()
    one = Channel(HANDLERS, closed.set)
    await one.open(ours)
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(60):
            await closed.wait()
    with pytest.raises(ChannelError):
        await one.request("echo", seconds=1)
