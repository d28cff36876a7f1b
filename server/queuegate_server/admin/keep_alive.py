"""Connections that carry one request after another, and a drain of those in progress.

At the limit of a port, each new connection replaces the connection that has been idle the longest.
"""

import asyncio
import logging
from typing import Any, Final, cast

from aiohttp import web

from queuegate_server.admin.connections import READ_BUFFER_BYTES, Connection

FIRST_REQUEST_SECONDS: Final = 10.0
"""The time limit from the start of a connection, or its TLS handshake, to the end of the first
request's headers."""
KEEP_ALIVE_SECONDS: Final = 75.0
_LINGERING_SECONDS: Final = 2.0
"""How long to keep reading a rejected body so that the client receives the response."""


class KeepAliveConnection(Connection):
    """A connection that is aborted if its first request does not arrive in time."""

    __slots__ = ()

    def __init__(
        self,
        server: web.Server,
        connections: "dict[Any, None]",
        log: logging.Logger,
        **limits: Any,
    ) -> None:
        """Add this connection to `connections`, which is ordered by idle time (longest first)."""
        super().__init__(
            server,
            connections,
            log,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            **limits,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the first request."""
        super().connection_made(transport)
        # Cast, because the class of TLS transports is private.
        writing = cast("Any", transport)
        if transport.get_extra_info("ssl_object") is not None:
            writing.set_read_buffer_limits(READ_BUFFER_BYTES)
        writing.set_write_buffer_limits(high=READ_BUFFER_BYTES)
        self.cut_after(FIRST_REQUEST_SECONDS)

    def touch(self) -> None:
        """Reset the idle time at the start or end of a request."""
        self.clear_limit()
        if self in self._open:
            del self._open[self]
            self._open[self] = None


class InProgress:
    """The requests in progress on a port."""

    def __init__(self) -> None:
        self.count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, connection: KeepAliveConnection) -> None:
        """Count a request on a connection."""
        connection.touch()
        self.count += 1
        self._idle.clear()

    def end(self, connection: KeepAliveConnection) -> None:
        """Stop counting a request on a connection."""
        connection.touch()
        self.count -= 1
        if not self.count:
            self._idle.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until none is in progress. Return False if that takes longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
