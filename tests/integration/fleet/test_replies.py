"""What a server that only pretends to be Redis can make a replica hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.driver import MAX_REPLY_BYTES, MAX_REPLY_DEPTH, MAX_REPLY_ITEMS
from tests.integration.fleet.test_connection import connected
from tests.support.fakes.tcp_server import running_tcp

TOO_LARGE = {
    "a string": b"$%d\r\n" % (1 << 40),
    "a length below zero": b"$-7\r\n",
    "many strings": b"*5\r\n" + (b"$%d\r\n%b\r\n" % (1 << 20, bytes(1 << 20))) * 5,
    "many values": b"*%d\r\n" % (1 << 40) + b":1\r\n" * (MAX_REPLY_ITEMS + 1),
    "nested lists": b"*1\r\n" * (MAX_REPLY_DEPTH + 1),
    "a line": b"+" + bytes(1 << 20),
}


@contextlib.asynccontextmanager
async def answering(*replies: bytes) -> AsyncIterator[str]:
    """Answer each command with the next reply; the first ones are those of a new connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await reader.readline()).startswith(b"*"):
            words = []
            for _ in range(int(line[1:])):
                length = int((await reader.readline())[1:])
                words.append((await reader.readexactly(length + 2))[:-2])
            is_setup = words[0] in (b"CLIENT", b"SELECT", b"HELLO")
            writer.write(b"+OK\r\n" if is_setup else replies[0])
            await writer.drain()

    async with running_tcp(serve) as port:
        yield f"redis://127.0.0.1:{port}"


@pytest.mark.parametrize("reply", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_a_reply_that_is_too_large_is_given_up(tmp_path: Path, reply: bytes) -> None:
    async with answering(reply) as url, connected(tmp_path, url) as connection:
        with pytest.raises(StoreUnavailable, match=r"ReplyTooLarge|limit|Separator"):
            await connection.execute("GET", "key", seconds=30)


async def test_a_reply_of_the_largest_size_is_read(tmp_path: Path) -> None:
    content = bytes(MAX_REPLY_BYTES - 100)
    reply = b"$%d\r\n%b\r\n" % (len(content), content)
    async with answering(reply) as url, connected(tmp_path, url) as connection:
        assert await connection.execute("GET", "key", seconds=30) == content
