"""A provider that sends too much around its answers: lookups fail soon, and block nobody."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from queuegate_server.identity.resolver import KnownUser
from queuegate_server.identity.rest.answer_limits import MAX_INFORMATIONAL
from tests.integration.rest.conftest import Build
from tests.support.fakes.keycloak import FakeRealm
from tests.support.fakes.rest_api import Request
from tests.support.long_work import bounded_steps
from tests.support.resolvers import lookup_failure

pytestmark = pytest.mark.usefixtures("no_task_left")

ALICE = KnownUser(("/eng/backend/db", "/ops"))
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
BLOCK = 64 * 1024

Send = Callable[[bytes], Iterator[bytes]]
"""Returns what a server sends, given the body of the right answer."""


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + JSON + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunks(body: bytes, size: int, extension: bytes = b"") -> Iterator[bytes]:
    yield CHUNKED
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        yield b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
    yield b"0\r\n\r\n"


def endless(text: bytes, before: bytes = b"") -> Send:
    def send(_: bytes) -> Iterator[bytes]:
        yield before
        while True:
            yield text * (BLOCK // len(text) + 1)

    return send


class RawServer:
    """A server that answers as a realm does, in bytes that a test chooses."""

    def __init__(self, realm: FakeRealm) -> None:
        self.realm = realm
        self.send: Send = lambda body: iter([with_length(body)])
        self.url = ""
        self.requests = 0
        self.sent = 0
        """The most that was sent on one connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(found[1]) if found else 0)
                self.requests += 1
                body, is_token = self._answer(head)
                for piece in [with_length(body)] if is_token else self.send(body):
                    writer.write(piece)
                    sent += len(piece)
                    self.sent = max(self.sent, sent)
                    await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, head: bytes) -> tuple[bytes, bool]:
        method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
        path, _, query = target.partition("?")
        if method == "POST":
            return json.dumps({"access_token": self.realm.token, "expires_in": 300}).encode(), True
        given = dict(part.split("=") for part in query.split("&"))
        token = {"Authorization": f"Bearer {self.realm.token}"}
        return self.realm.answer(Request(method, path, given, {}, token)).content, False


@pytest.fixture
async def raw(realm: FakeRealm) -> AsyncIterator[RawServer]:
    raw = RawServer(realm)
    running: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await raw.serve(reader, writer)
        finally:
            running.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield raw
    server.close()
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture
def asked(resolver: Build, raw: RawServer) -> Any:
    return lambda **more: resolver(url=raw.url, allow_plaintext=True, ca_file=None, **more)


OVERHEAD = "more than 32 KiB besides its body"
INFORMATIONAL = "more than 16 informational answers (1xx)"


@pytest.mark.parametrize(
    ("send", "detail"),
    [
        (endless(b"HTTP/1.1 100 Continue\r\n\r\n"), INFORMATIONAL),
        (endless(b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"), INFORMATIONAL),
        (endless(b"HTTP/1.1 199 x\r\nA: " + b"a" * 8000 + b"\r\n\r\n"), ""),
        (endless(b"1\r\nx\r\n", CHUNKED), OVERHEAD),
        (endless(b"1;" + b"e" * 4000 + b"\r\nx\r\n", CHUNKED), OVERHEAD),
        (endless(b"e", CHUNKED + b"1;"), ""),
        (endless(b"0", CHUNKED), ""),
        (endless(b"A: b\r\n", b"HTTP/1.1 200 OK\r\n"), ""),
        (endless(b"a", b"HTTP/1.1 200 OK\r\nA: "), ""),
        (endless(b"A: b\r\n", CHUNKED + b"1\r\nx\r\n0\r\n"), ""),
        (endless(b"\r\n"), ""),
        (endless(b"x", b"HTTP/1.1 200 "), ""),
        (endless(b"x", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), ""),
        (endless(b"x", b"HTTP/1.1 200 OK\r\n" + JSON + b"\r\n"), "larger than 2 MiB"),
        (endless(b"x" * 1000, b"HTTP/1.0 500 x\r\n\r\n"), "larger than 2 MiB"),
    ],
    ids=range(15),
)
async def test_an_answer_without_an_end(
    asked: Any, raw: RawServer, send: Send, detail: str
) -> None:
    raw.send = send
    resolver = await asked()
    async with bounded_steps():
        failure = await lookup_failure(resolver, "alice")
    assert detail in failure
    assert "no answer within" not in failure
    assert raw.sent < 16 * 1024 * 1024  # what the sockets hold
    # The connection is not used again, and others are.
    raw.send = lambda body: iter([with_length(body)])
    assert await resolver.resolve("alice") == ALICE


@pytest.mark.parametrize(
    "send",
    [
        lambda body: iter(
            [b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_INFORMATIONAL, with_length(body)]
        ),
        lambda body: chunks(body, 1),
        lambda body: chunks(body, 7, b';a="b"'),
        lambda body: iter([b"".join(chunks(body, 1))]),
        lambda body: iter([*chunks(body[:1] + b" " * 2_000_000 + body[1:], 128)]),
        lambda body: iter([b"".join(chunks(body[:1] + b" " * 2_000_000 + body[1:], 4096))]),
        lambda body: iter([with_length(body[:1] + b" " * 2_000_000 + body[1:])]),
    ],
    ids=range(7),
)
async def test_answers_within_the_limits(asked: Any, raw: RawServer, send: Send) -> None:
    raw.send = send
    resolver = await asked()
    for _ in range(3):
        assert await resolver.resolve("alice") == ALICE


async def test_a_connection_that_ends_after_a_long_answer(asked: Any, raw: RawServer) -> None:
    """What has arrived is read, although the connection has ended meanwhile."""

    def send(body: bytes) -> Iterator[bytes]:
        padded = body[:1] + b" " * 1_500_000 + body[1:]
        yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + JSON + b"\r\n" + padded
        raise OSError("the server ends the connection")

    raw.send = send
    assert await (await asked()).resolve("alice") == ALICE


async def test_answers_to_no_request(asked: Any, raw: RawServer) -> None:
    """An idle connection on which something arrives is closed."""

    def send(body: bytes) -> Iterator[bytes]:
        yield with_length(body)
        yield from endless(with_length(b"[]"))(b"")

    raw.send = send
    resolver = await asked()
    for _ in range(3):
        assert await resolver.resolve("alice") == ALICE
    assert raw.sent < 16 * 1024 * 1024
