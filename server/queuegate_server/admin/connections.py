"""The connections of the operations port, counted from accept on, before any handshake, and aborted
after a time.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admin")
MAX_CONNECTIONS: Final = 100
"""Of the operations port, not counting those whose request the site has admitted."""
CONNECTION_SECONDS: Final = 5.0
READ_BUFFER_BYTES: Final = 16 * 1024
"""How much is decrypted before it is asked for."""
TLS_SHUTDOWN_SECONDS: Final = 1.0
"""A client may not answer the end of the connection."""
_MAX_HEADERS: Final = 64
_RETRY_SECONDS: Final = 0.1
"""After a connection could not be accepted, for example for want of file descriptors."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every response that does not set its own."""


def complete_headers(response: web.StreamResponse) -> None:
    """Give a response the common headers, and close its connection."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "queuegate"
    response.force_close()
    # The library has already written its headers. Without this, a client would send its next
    # request on a connection that is about to close.
    response.headers["Connection"] = "close"


def malformed(
    request: web.BaseRequest, status: int, error: BaseException | None, log: logging.Logger
) -> web.Response:
    """Answer a request that is not HTTP or could not be answered, without quoting it.

    Args:
        request: The request.
        status: The status chosen by the library.
        error: The error, or None for a timeout.
        log: The logger for faults of this server.

    Raises:
        ConnectionError: Part of another response has been sent.
    """
    # The library cannot encode its response to an `Expect` header that is not UTF-8.
    if isinstance(error, HttpProcessingError | web.RequestPayloadError | UnicodeEncodeError):
        status = 400
        # A gRPC client configured with this port keeps sending data that is not HTTP.
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

    __slots__ = ("_log", "_open", "task")

    def __init__(
        self,
        server: web.Server,
        connections: "dict[Any, None]",
        log: logging.Logger,
        **limits: Any,
    ) -> None:
        """Count among these connections until it is lost.

        Args:
            server: The HTTP server.
            connections: Those that count, the first to be cut first.
            log: Where to log faults.
            limits: Further arguments of the library's handler.
        """
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            max_headers=_MAX_HEADERS,
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,
            **limits,
        )
        self._log = log
        self._open = connections
        self._open[self] = None
        self.task: asyncio.Task[None] | None = None
        """Ends with the handshake."""

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
        return malformed(request, status, exc, self._log)


C = TypeVar("C", bound=Connection)


class Bounds(NamedTuple):
    """The bounds on the connections of a port."""

    connections: int
    backlog: int
    handshake_seconds: float
    handshake_pause: float
    """Seconds between two handshakes: the event loop does each in a step, and a storm comes in one
    turn."""


class Connections(Generic[C]):
    """The listening socket, and the connections that it has accepted."""

    def __init__(
        self,
        address: HostPort,
        certificate: CertificateReloader | None,
        bounds: Bounds,
        connect: Callable[[web.Server, dict[C, None]], C],
        log: logging.Logger,
    ) -> None:
        """Bind the address.

        Args:
            address: Where to listen.
            certificate: With it the port is HTTPS; each new connection gets the one that was
                loaded last.
            bounds: The bounds.
            connect: Returns a connection, given the HTTP server and the connections that count.
            log: Where to log faults.

        Raises:
            CannotListen: The address cannot be bound.
        """
        self._certificate = certificate
        self._bounds = bounds
        self._connect = connect
        self._log = log
        self.socket = open_tcp(*address)
        self.socket.setblocking(False)
        self.address = address_of(self.socket)
        """The address with the port in use."""
        self._open: dict[C, None] = {}
        self._accepting: asyncio.Task[None] | None = None

    def start(self, server: web.Server) -> None:
        """Start to accept connections, for an HTTP server."""
        self.socket.listen(self._bounds.backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(server))

    async def close(self) -> None:
        """Stop listening, and end the handshakes."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait({self._accepting})
        self.socket.close()
        for connection in [*self._open]:
            if connection.task is not None:
                connection.task.cancel()

    async def _accept(self, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # So that a storm of connections leaves time for others.
            await asyncio.sleep(self._bounds.handshake_pause if self._certificate else 0)
            try:
                accepted, _ = await loop.sock_accept(self.socket)
                try:
                    self._take(server, accepted)
                except BaseException:
                    accepted.close()
                    raise
            except OSError as error:
                self._log.warning("cannot accept a connection", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:  # without this task, the port would be silent
                self._log.exception("cannot accept a connection")
                await asyncio.sleep(_RETRY_SECONDS)

    def _take(self, server: web.Server, accepted: socket.socket) -> None:
        """Begin a connection. At the limit, the oldest gives way: idle ones keep nobody out."""
        if len(self._open) >= self._bounds.connections:
            next(iter(self._open)).cut()
        connection = self._connect(server, self._open)
        connection.task = asyncio.get_running_loop().create_task(self._begin(connection, accepted))

    async def _begin(self, connection: C, accepted: socket.socket) -> None:
        with_tls = self._certificate is not None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate.value.context if self._certificate else None,
                ssl_handshake_timeout=self._bounds.handshake_seconds if with_tls else None,
                ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS if with_tls else None,
            )
        except OSError as error:  # including TLS errors and timeouts
            connection.forget()
            self._log.debug("connection failed", extra={"error": str(error)})


class ProbeConnection(Connection):
    """A connection to the operations port, which is cut after a time."""

    __slots__ = ("_cut",)

    def __init__(
        self, server: web.Server, connections: "dict[ProbeConnection, None]", line_bytes: int
    ) -> None:
        """Count among these connections until it is lost, or admitted.

        Args:
            server: The HTTP server.
            connections: Those that count, the oldest first.
            line_bytes: The size of the first line of a request, and of each header.
        """
        super().__init__(
            server,
            connections,
            _LOG,
            keepalive_timeout=CONNECTION_SECONDS,
            max_line_size=line_bytes,
            max_field_size=line_bytes,
            lingering_time=0,
        )
        self._cut: asyncio.TimerHandle | None = None
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

    def forget(self) -> None:
        """Count no longer."""
        super().forget()
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None


_PROBES: Final = Bounds(MAX_CONNECTIONS, backlog=512, handshake_seconds=3.0, handshake_pause=0.004)


def probe_connections(
    address: HostPort, certificate: CertificateReloader | None, line_bytes: int
) -> Connections[ProbeConnection]:
    """Bind the operations port; see `Connections`, and ProbeConnection for `line_bytes`."""
    return Connections(
        address,
        certificate,
        _PROBES,
        lambda server, connections: ProbeConnection(server, connections, line_bytes),
        _LOG,
    )
