"""A TCP proxy that stalls, cuts and delays the data of a server, byte by byte."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from enum import Enum

from tests.support.fakes.tcp_server import close_server


class Interruption(Enum):
    """How a connection is interrupted after `pass_bytes`."""

    STALL = "stall"
    CUT = "cut"


class Proxy:
    """Forwards 127.0.0.1:`port` to a server."""

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        """Create a proxy. With `tls`, it accepts TLS connections and forwards their contents."""
        self.target = target
        """The port of the server for new connections."""
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._is_open = False
        self._connections: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0
        self.received = 0
        """The bytes that the server sent over all connections."""
        self.pass_bytes: int | None = None
        """The number of bytes from the server after which a connection is interrupted."""
        self.interruption = Interruption.STALL
        self.delay = 0.0
        """The delay of each piece from the server, in seconds."""
        self.one_by_one = False
        """Whether to pass single bytes."""

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def tls_url(self) -> str:
        return f"ldaps://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._is_open = True
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Accept no more connections, and reset open ones."""
        assert self._server
        self._is_open = False
        await close_server(self._server, self.port)
        self.drop()

    def drop(self) -> None:
        """Reset all connections."""
        for writer in self._connections:
            _abort(writer)

    async def close(self) -> None:
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._connections.add(writer)
        self._keep(asyncio.current_task())
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except (OSError, asyncio.CancelledError):
            _abort(writer)
            return
        self._connections.add(up_writer)
        if not self._is_open:  # it has been closed meanwhile
            self.drop()
            return
        for call in (self._up(reader, up_writer), self._down(up_reader, writer)):
            self._keep(asyncio.create_task(call))

    def _keep(self, task: asyncio.Task[None] | None) -> None:
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        _abort(writer)

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = 0
        with contextlib.suppress(OSError):
            while data := await reader.read(1 if self.one_by_one else 65536):
                self.received += len(data)
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.pass_bytes is not None and sent + len(data) > self.pass_bytes:
                    writer.write(data[: max(0, self.pass_bytes - sent)])
                    await writer.drain()
                    if self.interruption is Interruption.STALL:
                        await asyncio.Event().wait()
                    break
                sent += len(data)
                writer.write(data)
                await writer.drain()
        writer.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    # asyncio closes a TLS transport as well, if the peer or a task ends it. Before Python 3.11.3, a
    # transport that was closed twice cannot be aborted.
    with contextlib.suppress(AttributeError):
        writer.transport.abort()


@contextlib.asynccontextmanager
async def proxy_to(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    proxy = Proxy(port, tls)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
