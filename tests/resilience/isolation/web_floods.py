"""Floods of the operations port and of the console on it, each in a process of its own.

As a program it takes the address, a PEM file with the authority of the port's certificate or an
empty text, and the name of a flood. It prints a line once the flood is under way, and continues
until it is killed.
"""

import asyncio
import contextlib
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from queuegate_server.console.pages.change import MAX_CLAIMS_BYTES, MAX_FORM_BYTES
from queuegate_server.console.views import SMALL_FORM_BYTES
from queuegate_server.rpc.policy_service import MAX_CONTENT_BYTES

BOUNDARY: Final = b"0123456789"
MULTIPART: Final = b"multipart/form-data; boundary=" + BOUNDARY
URLENCODED: Final = b"application/x-www-form-urlencoded"
LARGE: Final = 4_400_000
UNDER_WAY: Final = 10
"""How many exchanges, or attempts, of a flood have ended when the neighbour begins."""


@dataclass(frozen=True)
class Web:
    """One request, sent again and again on new connections."""

    method: bytes
    path: bytes
    content_type: bytes = b""
    body: bytes = b""
    """`%TOKEN%` stands for the token of the page's form."""
    connections: int = 20
    sends: bool = True
    """Whether it is sent at all, or the connection only opened."""
    reads: bool = True


def part(name: bytes, value: bytes) -> bytes:
    head = b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n' % (BOUNDARY, name)
    return head + value + b"\r\n"


def proposal(policy: bytes, claims: bytes = b"") -> bytes:
    fields = part(b"form_token", b"%TOKEN%") + part(b"policy", policy) + part(b"claims", claims)
    return fields + b"--%s--\r\n" % BOUNDARY


def large_policy() -> bytes:
    """A policy of the largest size, which differs from the one that is served at each queue."""
    head = b"partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n"
    queues = bytearray(head)
    number = 0
    while len(queues) < MAX_CONTENT_BYTES - 100:
        queues += b"          - {name: q%d, submitacl: bob}\n" % number
        number += 1
    return bytes(queues)


def multiplied_claims() -> bytes:
    """Claims of the largest size, the same one again and again."""
    long = b"x" * (MAX_CLAIMS_BYTES - 2_000)
    return b'claims:\n- &a only group:"%s" may submit root\n' % long + b"- *a\n" * 199


SMALL_POLICY: Final = b"partitions: [{name: default, queues: [{name: root}]}]\n"
FLOODS: Final = {
    "sign-in with blank lines": Web(b"POST", b"sign-in", MULTIPART, b"\r\n" * (LARGE // 2)),
    "sign-in of the largest size": Web(
        b"POST", b"sign-in", URLENCODED, b"token=" + b"%41" * (SMALL_FORM_BYTES // 3 - 10)
    ),
    "sign-in that is malformed": Web(
        b"POST", b"sign-in", MULTIPART, part(b'a"; x="\x1b[2J' * 100, b"\xff" * 10_000)
    ),
    "proposal with blank lines": Web(b"POST", b"change", MULTIPART, b"\r\n" * (LARGE // 2)),
    "proposal of the largest size": Web(b"POST", b"change", MULTIPART, proposal(large_policy())),
    "proposal of many escapes": Web(
        b"POST", b"change", URLENCODED, b"policy=" + b"%41" * ((MAX_FORM_BYTES - 100) // 3)
    ),
    "multiplied claims": Web(
        b"POST", b"change", MULTIPART, proposal(SMALL_POLICY, multiplied_claims())
    ),
    "search of queues": Web(b"GET", b"queues?search=q"),
    "queues": Web(b"GET", b"queues?queue=root.q1&people=1"),
    "access": Web(b"GET", b"access?user=alice&queue=root.sandbox&access=submit"),
    "queues of a user": Web(b"GET", b"user?user=alice"),
    "health": Web(b"GET", b"health"),
    "metrics": Web(b"GET", b"/metrics"),
    "long headers": Web(b"GET", b"/metrics", b"x" * 15_000),
    "not HTTP": Web(b"\x00\x1b[2J", b"/metrics"),
    "silent connections": Web(b"", b"", connections=600, sends=False),
    "answers nobody reads": Web(b"GET", b"queues?search=q", connections=100, reads=False),
}


class Flood:
    def __init__(self, address: str, context: ssl.SSLContext | None, web: Web) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context = context if web.sends else None
        self._form_context = context
        self._web = web
        self.turns = 0
        self.started = asyncio.Event()

    async def run(self) -> None:
        request = await self._request()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._web.connections):
                group.create_task(self._forever(request))

    async def _request(self) -> bytes:
        web = self._web
        body = web.body
        if b"%TOKEN%" in body:
            page = await self._page(b"GET /console/change HTTP/1.1\r\nHost: localhost\r\n\r\n")
            found = re.search(rb'name="form_token" value="([0-9a-f]+)"', page)
            assert found, page
            body = body.replace(b"%TOKEN%", found[1])
        path = web.path if web.path.startswith(b"/") else b"/console/" + web.path
        head = b"%s %s HTTP/1.1\r\nHost: localhost\r\n" % (web.method, path)
        if web.content_type:
            head += b"Content-Type: %s\r\n" % web.content_type
        if body:
            head += b"Content-Length: %d\r\n" % len(body)
        return head + b"\r\n" + body

    async def _open(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = "localhost" if context else None
        return await asyncio.open_connection(
            self._host, self._port, ssl=context, server_hostname=name
        )

    async def _page(self, request: bytes) -> bytes:
        reader, writer = await self._open(self._form_context)
        writer.write(request)
        page = await reader.read()
        writer.transport.abort()
        return page

    async def _forever(self, request: bytes) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                reader, writer = await self._open(self._context)
                try:
                    await self._exchange(request, reader, writer)
                finally:
                    writer.transport.abort()
            self.turns += 1
            if self.turns >= UNDER_WAY:
                self.started.set()

    async def _exchange(
        self, request: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not self._web.sends:
            self.started.set()
        elif self._web.reads:
            writer.write(request)
            await writer.drain()
        else:
            self.started.set()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request)
            await asyncio.sleep(10)
        while await reader.read(65_536):
            pass


@contextlib.contextmanager
def flooded(address: str, authority: Path | None, name: str) -> Iterator[None]:
    """Flood a port while the block runs."""
    with flood_process(__name__, address, str(authority or ""), name):
        yield


@contextlib.contextmanager
def flood_process(module: str, *arguments: str) -> Iterator[None]:
    """Run a module, whose flood is under way while the block runs."""
    command = (sys.executable, "-m", module, *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"under way\n"
        try:
            yield
        finally:
            process.kill()


async def run_flood(flood: Coroutine[Any, Any, None], started: asyncio.Event) -> None:
    """Run a flood in a process of `flood_process`. `started` is set once it is under way."""
    # A flood comes from another machine, and takes no processor time from the server.
    os.nice(19)
    task = asyncio.create_task(flood)
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        print("under way", flush=True)
    await task


async def main(address: str, authority: str, name: str) -> None:
    context = ssl.create_default_context(cafile=authority) if authority else None
    flood = Flood(address, context, FLOODS[name])
    await run_flood(flood.run(), flood.started)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
