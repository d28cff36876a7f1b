"""The connections of the operations port: counted from when they are accepted, before any
handshake, and cut after a time.
"""

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admin")
MAX_CONNECTIONS: Final = 100
"""Not counting those whose request the site has admitted."""
CONNECTION_SECONDS: Final = 5.0
MAX_HEADERS: Final = 64
_HANDSHAKE_SECONDS: Final = 3.0
_TLS_SHUTDOWN_SECONDS: Final = 1.0
"""A client that is cut may not answer."""
_HANDSHAKE_PAUSE_SECONDS: Final = 0.004
"""Between two handshakes: the event loop does each in a step, and a storm comes in one turn."""
_BACKLOG: Final = 512
_READ_BUFFER_BYTES: Final = 16 * 1024
_RETRY_SECONDS: Final = 0.1
"""After a connection could not be accepted, for example for want of file descriptors."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer that does not have others."""


def complete_headers(response: web.StreamResponse) -> None:
    """Give an answer the headers of every answer, and end its connection."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "queuegate"
    response.force_close()
    # The library has written its headers already. A client that is not told would send its next
    # request on a connection that is about to end.
    response.headers["Connection"] = "close"


def malformed(
    request: web.BaseRequest, status: int, error: BaseException | None, log: logging.Logger
) -> web.Response:
    """Answer a request that is not HTTP, or that could not be answered, without its text.

    Args:
        request: The request.
        status: The status that the library has chosen.
        error: The error; None for a timeout.
        log: Where to log a fault of this server.

    Raises:
        ConnectionError: A part of another answer has been sent.
    """
    # The library cannot encode its answer to an `Expect` that is not UTF-8.
    if isinstance(error, HttpProcessingError | web.RequestPayloadError | UnicodeEncodeError):
        status = 400
        # A gRPC client that is configured with this port keeps sending what is not HTTP.
        log.debug("received a request that is not HTTP", extra={"error": type(error).__name__})
    else:
        log.error("request failed", exc_info=error)
    if request.writer.output_size > 0:
        raise ConnectionError("part of the response has already been sent")
    response = web.Response(status=status)
    response.text = f"{response.reason}\n"
    complete_headers(response)
    return response


class Connection(web.RequestHandler):
    """A connection, from before its handshake until it is lost."""

    __slots__ = ("_cut", "_open", "task")

    def __init__(
        self, server: web.Server, connections: "dict[Connection, None]", line_bytes: int
    ) -> None:
        """Count among these connections until it is lost, or admitted.

        Args:
            server: The HTTP server.
            connections: Those that count, the oldest first.
            line_bytes: The size of the first line of a request, and of each header.
        """
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=CONNECTION_SECONDS,
            max_line_size=line_bytes,
            max_field_size=line_bytes,
            max_headers=MAX_HEADERS,
            lingering_time=0,
            read_bufsize=_READ_BUFFER_BYTES,
            auto_decompress=False,
        )
        self._open = connections
        self._open[self] = None
        self._cut: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        """Ends with the handshake."""
        self.cut_after(CONNECTION_SECONDS)

    def admit(self, seconds: float) -> None:
        """Give it more time. It does not count until it is released."""
        self._open.pop(self, None)
        self.cut_after(seconds)

    def release(self) -> None:
        """Count again, as the newest, while its answer is read."""
        if self.transport is not None:
            self._open[self] = None

    def cut_after(self, seconds: float) -> None:
        """End it after some seconds, and not earlier."""
        if self._cut is not None:
            self._cut.cancel()
        self._cut = asyncio.get_running_loop().call_later(seconds, self.cut)

    def cut(self) -> None:
        """End it at once."""
        self.forget()
        if self.task is not None:
            self.task.cancel()
        if self.transport is not None:
            self.transport.abort()

    def forget(self) -> None:
        """Count no longer."""
        self._open.pop(self, None)
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count no longer."""
        self.forget()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer as to every other request: the library would name its version."""
        del message
        return malformed(request, status, exc, _LOG)


class Connections:
    """The listening socket, and the connections that it has accepted."""

    def __init__(
        self, address: HostPort, certificate: CertificateReloader | None, line_bytes: int
    ) -> None:
        """Bind the address.

        Args:
            address: Where to listen.
            certificate: With it the port is HTTPS; each new connection gets the one that was
                loaded last.
            line_bytes: The size of the first line of a request, and of each header.

        Raises:
            CannotListen: The address cannot be bound.
        """
        self._certificate = certificate
        self._line_bytes = line_bytes
        self._socket = open_tcp(*address)
        self._socket.setblocking(False)
        self.address = address_of(self._socket)
        """The address with the port in use."""
        self._open: dict[Connection, None] = {}
        self._accepting: asyncio.Task[None] | None = None

    def start(self, server: web.Server) -> None:
        """Start to accept connections, for an HTTP server."""
        self._socket.listen(_BACKLOG)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(server))

    async def close(self) -> None:
        """Stop listening, and end the handshakes."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        self._socket.close()
        for connection in [*self._open]:
            if connection.task is not None:
                connection.task.cancel()

    async def _accept(self, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # So that a storm of connections leaves time for calls.
            await asyncio.sleep(_HANDSHAKE_PAUSE_SECONDS if self._certificate else 0)
            try:
                accepted, _ = await loop.sock_accept(self._socket)
                try:
                    self._take(server, accepted)
                except BaseException:
                    accepted.close()
                    raise
            except OSError as error:
                _LOG.warning("cannot accept a connection", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:  # without this task, the port would be silent
                _LOG.exception("cannot accept a connection")
                await asyncio.sleep(_RETRY_SECONDS)

    def _take(self, server: web.Server, accepted: socket.socket) -> None:
        """Begin a connection. At the limit, the oldest gives way: idle ones keep nobody out."""
        if len(self._open) >= MAX_CONNECTIONS:
            next(iter(self._open)).cut()
        connection = Connection(server, self._open, self._line_bytes)
        connection.task = asyncio.get_running_loop().create_task(self._begin(connection, accepted))

    async def _begin(self, connection: Connection, accepted: socket.socket) -> None:
        with_tls = self._certificate is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate.value.context if self._certificate else None,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS if with_tls else None,
                ssl_shutdown_timeout=_TLS_SHUTDOWN_SECONDS if with_tls else None,
            )
        except OSError as error:  # including TLS errors and timeouts
            connection.forget()
            _LOG.debug("connection failed", extra={"error": str(error)})
