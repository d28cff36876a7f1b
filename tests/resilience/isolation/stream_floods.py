"""Floods of HTTP that never ends, at the webhook and the operations port.

As a program it takes the address, a PEM file with the authority of the port's certificate or an
empty text, and the name of a flood. It prints a line once the flood is under way, and continues
until it is killed.
"""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.resilience.isolation.web_floods import flood_process, run_flood

POST: Final = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED: Final = POST + b"Transfer-Encoding: chunked\r\n\r\n"
STREAMS: Final = {
    "chunks of one byte": (CHUNKED, b"1\r\n \r\n"),
    "chunks with extensions": (CHUNKED, b"1;a=b;c\r\n \r\n"),
    "an endless chunk extension": (CHUNKED + b"1;", b"a=b;"),
    "trailers without an end": (CHUNKED + b"0\r\n", b"a: b\r\n"),
    "a body for a path that does not exist": (
        b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n",
        b"a" * 1_024,
    ),
    "a body with an unknown expectation": (
        POST + b"Expect: x\r\nContent-Length: 999999999999\r\n\r\n",
        b"a" * 1_024,
    ),
    "headers without an end": (POST, b"a: b\r\n"),
    "a header without an end": (POST + b"a: ", b"b"),
    "empty lines": (b"", b"\r\n"),
    "pipelined requests": (b"", POST + b"Content-Length: 1\r\n\r\n1"),
    "pipelined probes": (b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"),
    "pipelined expectations": (
        b"",
        POST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n1",
    ),
}
"""How a connection begins, and what follows without an end."""
CONNECTIONS: Final = 50
PART: Final = 16_384
"""How many bytes are sent at once."""
UNDER_WAY: Final = 20
"""How many parts have been sent, or connections have ended, when the neighbour begins."""


class Flood:
    """Connections that send the same without an end, and read whatever they are answered."""

    def __init__(self, address: str, context: ssl.SSLContext | None, name: str) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._context = context
        self._first, self._unit = STREAMS[name]
        self._turns = 0
        self.started = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(self._forever())

    async def _forever(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(
                    self._host,
                    self._port,
                    ssl=self._context,
                    server_hostname="localhost" if self._context else None,
                )
                sending = asyncio.create_task(self._send(writer))
                try:
                    while await reader.read(65_536):
                        pass
                finally:
                    sending.cancel()
                    await asyncio.gather(sending, return_exceptions=True)
                    writer.transport.abort()
            self._count()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self._first)
        part = self._unit * (PART // len(self._unit))
        while True:
            writer.write(part)
            await writer.drain()
            # On a lost connection, `drain` returns at once until the event loop notices the loss.
            await asyncio.sleep(0)
            self._count()

    def _count(self) -> None:
        self._turns += 1
        if self._turns >= UNDER_WAY:
            self.started.set()


@contextlib.contextmanager
def flooded(address: str, authority: Path | None, name: str) -> Iterator[None]:
    """Flood a port while the block runs."""
    with flood_process(__name__, address, str(authority or ""), name):
        yield


async def main(address: str, authority: str, name: str) -> None:
    context = ssl.create_default_context(cafile=authority) if authority else None
    flood = Flood(address, context, name)
    await run_flood(flood.run(), flood.started)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
