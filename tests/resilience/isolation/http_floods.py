"""Floods of the HTTP port, each in a process of its own.

As a program it takes the address and the name of a flood. It prints a line once the flood is under
way, and continues until it is killed.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from queuegate_server.transports.http.server import MAX_BODY_BYTES as LARGEST
from tests.resilience.isolation.web_floods import UNDER_WAY, flood_process, run_flood
from tests.support.servers.http_port import ACTIONS, EVALUATION, EVALUATIONS, RESOURCES, asked


@dataclass(frozen=True)
class Http:
    """What each connection sends again and again; each time on a new connection unless it stays."""

    parts: tuple[bytes, ...]
    connections: int = 20
    pause: float = 0.0
    """The time between two parts, in seconds."""
    reads: bool = True
    stays: bool = False
    """Whether the connection is kept for the next request."""


def request(path: str, body: bytes, *headers: str) -> bytes:
    """Return a request with a body, and perhaps further headers."""
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def with_headers(*headers: str) -> bytes:
    """Return the head of a request with these headers about its body."""
    lines = [f"POST {EVALUATION} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*lines, *headers, "", ""]).encode()


QUESTION: Final = asked("alice", "submit", "root.open")
SMALL: Final = json.dumps(QUESTION).encode()
EVALUATIONS_OF_ALL: Final = json.dumps(
    QUESTION | {"evaluations": [{"action": {"name": "admin"}}] * 10_000}
).encode()
GROUPS: Final = json.dumps(
    asked("alice", "submit", "root.sandbox", groups=[f"g{number}" for number in range(10_000)])
).encode()
NOTHING: Final = b'{"evaluations":[' + b"{}," * 5_400 + b"{}]}"
PADDED: Final = SMALL[:-1] + b', "x": "' + b"x" * (LARGEST - len(SMALL) - 10) + b'"}'
ENTRIES: Final = SMALL[:-1] + b', "x": [' + b"[]," * 65_000 + b"[]]}"
TOO_MANY: Final = SMALL[:-1] + b', "x": [' + b"0," * ((LARGEST - len(SMALL) - 20) // 2) + b"0]}"
DEEP: Final = SMALL[:-1] + b', "x": ' + b"[" * 190_000 + b"}"
ESCAPES: Final = SMALL[:-1] + b', "x": "' + b"\\u0041" * ((LARGEST - len(SMALL) - 20) // 6) + b'"}'
CHUNKS: Final = with_headers("Transfer-Encoding: chunked") + b"1\r\n{\r\n" * 100_000

FLOODS: Final = {
    "small questions": Http((request(EVALUATION, SMALL),), stays=True),
    "questions on new connections": Http((request(EVALUATION, SMALL),)),
    "malformed questions": Http((request(EVALUATION, b'{"subject": 1}'),), stays=True),
    "largest batches": Http((request(EVALUATIONS, EVALUATIONS_OF_ALL),), stays=True),
    "ten thousand groups": Http((request(EVALUATION, GROUPS),), stays=True),
    "lists of queues": Http((request(RESOURCES, SMALL),), stays=True),
    "actions": Http((request(ACTIONS, SMALL),), stays=True),
    "batches of nothing": Http((request(EVALUATIONS, NOTHING),), stays=True),
    "batches of strangers": Http(
        (request(EVALUATIONS, NOTHING, f"Authorization: Bearer qg_{'x' * 43}"),), stays=True
    ),
    "bodies of the largest size": Http((request(EVALUATION, PADDED),), stays=True),
    "bodies of many entries": Http((request(EVALUATION, ENTRIES),), stays=True),
    "bodies of too many entries": Http((request(EVALUATION, TOO_MANY),), stays=True),
    "deep bodies": Http((request(EVALUATION, DEEP),), stays=True),
    "bodies of escapes": Http((request(EVALUATION, ESCAPES),), stays=True),
    "bodies that arrive slowly": Http(
        (request(EVALUATION, PADDED)[:100_000], b" ", b" "), connections=100, pause=1.0
    ),
    "chunks of one byte": Http((CHUNKS,)),
    "two lengths": Http((with_headers("Content-Length: 2", "Transfer-Encoding: chunked"),)),
    "requests that do not wait": Http((request(EVALUATION, SMALL) * 500,)),
    "clients that wait to be asked": Http(
        (with_headers("Content-Length: 9", "Expect: 100-continue"),), connections=200, reads=False
    ),
    "compressed bodies": Http((request(EVALUATION, b"x" * 15_000, "Content-Encoding: gzip"),)),
    "long headers": Http((with_headers(f"X: {'x' * 15_000}"),)),
    "silent connections": Http((), connections=600),
    "answers nobody reads": Http(
        (request(EVALUATIONS, EVALUATIONS_OF_ALL),), connections=50, reads=False
    ),
}


class Flood:
    def __init__(self, address: str, http: Http) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._http = http
        self.turns = 0
        self.started = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._http.connections):
                group.create_task(self._forever())

    async def _forever(self) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError, ValueError):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                try:
                    await self._exchange(reader, writer)
                finally:
                    writer.transport.abort()
            self._turn()

    def _turn(self) -> None:
        self.turns += 1
        if self.turns >= UNDER_WAY:
            self.started.set()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = self._http
        if not http.parts or not http.reads or http.pause:
            self.started.set()
        for number in itertools.count():
            for part in http.parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(http.pause)
            if not http.reads or not http.parts:
                await asyncio.sleep(10)
                return
            may_stay = await _answered(reader)
            while not may_stay and await reader.read(65_536):
                pass
            if not may_stay or not http.stays:
                return
            if number:
                self._turn()


async def _answered(reader: asyncio.StreamReader) -> bool:
    """Read a response; return whether another request may follow."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    await reader.readexactly(int(fields[b"Content-Length"]))
    return fields.get(b"Connection") != b"close"


@contextlib.contextmanager
def flooded(address: str, name: str) -> Iterator[None]:
    """Flood a port while the block runs."""
    with flood_process(__name__, address, name):
        yield


async def main(address: str, name: str) -> None:
    flood = Flood(address, FLOODS[name])
    await run_flood(flood.run(), flood.started)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
