"""Limits the number of connections to an HTTP port. Each is counted as soon as it is accepted."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime import pauses
from queuegate_server.runtime.tcp import address_of

_LOG = logging.getLogger("queuegate_server.admin")
MAX_CONNECTIONS: Final = 100
"""The operations port's maximum number of connections, excluding those that a `Site` has
admitted."""
CONNECTION_SECONDS: Final = 5.0
READ_BUFFER_BYTES: Final = 16 * 1024
"""The maximum number of decrypted but unread bytes."""
TLS_SHUTDOWN_SECONDS: Final = 0.25
"""The time limit for a TLS shutdown, to which a client might not respond. Meanwhile whatever it
sends is decrypted."""
_MAX_HEADERS: Final = 64
MAX_HEAD_BYTES: Final = 16 * 1024
"""The maximum number of bytes in which a request line and its headers must arrive, with the empty
lines that may precede them (RFC 9112, section 2.2). API servers, browsers and Prometheus send less
than 16 KiB."""
_HEAD_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Content-Length: 0\r\nServer: queuegate\r\nConnection: close\r\n\r\n"
)
DISCARD_SECONDS: Final = 1.0
"""How long a client whose request has been rejected may take to send the rest and read the
answer."""
_DISCARD_PAUSE_SECONDS: Final = 0.05
"""The pause after each dropped part of up to 64 KiB."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}
"""The default headers for all responses."""


def complete_headers(response: web.StreamResponse) -> None:
    """Add the default headers to a response, and make it the last on its connection."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = "queuegate"
    response.force_close()
    # Replace aiohttp's Connection header. It would let a client reuse a connection that is being
    # closed.
    response.headers["Connection"] = "close"


class Connection(web.RequestHandler):
    """A connection that counts toward the limit from before its handshake until it is lost."""

    __slots__ = (
        "_body_left",
        "_head_bytes",
        "_is_discarding",
        "_limit",
        "_log",
        "_open",
        "_pause",
        "task",
    )

    def __init__(
        self,
        server: web.Server,
        connections: "dict[Any, None]",
        log: logging.Logger,
        **limits: Any,
    ) -> None:
        """Add this connection to `connections` until it is lost.

        `connections` is in the order in which connections would be aborted. `limits` are additional
        arguments for aiohttp's handler.
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
        self._limit: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._body_left = 0
        """How many bytes of the newest request's body have not been parsed."""
        self._is_discarding = False
        self._pause: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None
        """The handshake's task."""

    def cut(self) -> None:
        """Abort the connection, and drop whatever else it delivers."""
        self.forget()
        self._is_discarding = True
        if self.task is not None:
            self.task.cancel()
        if self.transport is not None:
            self.transport.abort()

    def forget(self) -> None:
        """Stop counting the connection."""
        self._open.pop(self, None)
        if self._limit is not None:
            self._limit.cancel()

    def cut_after(self, seconds: float) -> None:
        """Set the time after which the connection is aborted, replacing any earlier time limit but
        that of a rejected request.
        """
        if self._is_discarding:
            return
        self.clear_limit()
        self._limit = asyncio.get_running_loop().call_later(seconds, self.cut)

    def clear_limit(self) -> None:
        """Remove the time limit, if any, unless a request has been rejected."""
        if self._limit is not None and not self._is_discarding:
            self._limit.cancel()
            self._limit = None

    def discard(self) -> None:
        """Drop whatever else the client sends, unparsed, slowly and not for long. Its request has
        been rejected, and it may have to send the rest before it reads the response.
        """
        if self._is_discarding or self.transport is None:
            return
        self.cut_after(DISCARD_SECONDS)
        self._is_discarding = True
        # A full buffer of a body may have paused the transport.
        self._resume()

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 - as aiohttp
        """Continue reading, unless data is being dropped, for which no handler sets the pace."""
        if not self._is_discarding:
            super().resume_reading(resume_parser)

    def _resume(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Parse data, unless the client sends endless headers, or several requests at once."""
        if self._is_discarding:
            self._pause_reading()
            return
        parsed = self._parse(data)
        while parsed < len(data) and not self._is_discarding:
            data = data[parsed:]
            parsed = self._parse(data)

    def _pause_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._pause = loop.call_later(_DISCARD_PAUSE_SECONDS, self._resume)

    def _parse(self, data: bytes) -> int:
        """Parse part of one body or of one head. Returns the number of bytes, of which there is at
        least one unless there is no data or the rest is to be dropped.
        """
        requests = self._request_count
        is_in_body = self._body_left > 0
        max_head = MAX_HEAD_BYTES - self._head_bytes
        part = data[: self._body_left] if is_in_body else _head(data, max_head)
        super().data_received(part)
        if is_in_body:
            self._body_left -= len(part)
        elif self._request_count > requests:
            self._head_bytes = 0
            self._judge_request()
        else:
            self._head_bytes += len(part)
            if self._head_bytes >= MAX_HEAD_BYTES:
                self._log.debug("a request's headers do not end")
                self._refuse_head()
        return len(part)

    def _judge_request(self) -> None:
        """Reject the newest request if none of our own clients would send it."""
        message, body = self._messages[-1]
        if not isinstance(message, RawRequestMessage):
            _drop_frames(message.exc)
        elif message.chunked:
            # No port accepts a body without a Content-Length: chunks of one byte, extensions and
            # trailers take far longer to parse than to send.
            self._messages[-1] = (message._replace(should_close=True), body)
            self.discard()
        elif not body.is_eof():
            self._body_left = int(message.headers.get("Content-Length", 0)) - body.total_bytes
        # Our clients read each answer before they send the next request, and do not switch to
        # another protocol, which could not be checked here. A server may close a connection after
        # any response (RFC 9112, section 9.3.2).
        if len(self._messages) > 1 or self._upgraded:
            self.close()
            self.discard()

    def _refuse_head(self) -> None:
        """Answer that the headers are too long, unless another answer may have begun."""
        if self._request_count or self.transport is None:
            self.cut()
            return
        self.transport.write(_HEAD_TOO_LARGE)
        self.discard()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop counting the connection."""
        self.forget()
        if self._pause is not None:
            self._pause.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the response to a malformed request or a failed handler. It quotes no input and,
        unlike aiohttp's own, does not reveal the aiohttp version. Raises ConnectionError if part of
        another response has been sent, or the connection is lost.
        """
        del message
        # UnicodeEncodeError: aiohttp cannot encode its response to an `Expect` header that is not
        # UTF-8.
        if isinstance(exc, HttpProcessingError | web.RequestPayloadError | UnicodeEncodeError):
            status = 400
            # At a higher log level, a gRPC client configured with this port by mistake would flood
            # the log.
            fields = {"error": type(exc).__name__}
            self._log.debug("received a request that is not HTTP", extra=fields)
        elif isinstance(exc, ConnectionError) and (
            self.transport is None or self.transport.is_closing()
        ):
            self._log.debug("the client has closed the connection")
            raise exc
        else:
            self._log.error("request failed", exc_info=exc)
        self.discard()
        if request.writer.output_size > 0:
            raise ConnectionError("part of the response has already been sent")
        response = web.Response(status=status)
        response.text = f"{response.reason}\n"
        complete_headers(response)
        return response


def _head(data: bytes, max_bytes: int) -> bytes:
    """Return what may be a head at the start of data, however much has arrived with it."""
    head = data[:max_bytes]
    before = len(head) - len(head.lstrip(b"\r\n"))
    end = head.find(b"\r\n\r\n", before)
    return head if end < 0 else head[: end + 4]


def _drop_frames(error: BaseException | None) -> None:
    """Remove the tracebacks of a parser's error. Their frames refer to the data and to the error,
    and so would keep the data until a garbage collection.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


C = TypeVar("C", bound=Connection)


def discard_body(request: web.BaseRequest) -> None:
    """Drop the rest of a body that has not been read when the response begins."""
    if isinstance(request.protocol, Connection) and not request.content.is_eof():
        request.protocol.discard()


class Bounds(NamedTuple):
    """The bounds on a port's connections."""

    connections: int
    backlog: int
    handshake_seconds: float
    handshake_pause: float
    """Seconds between handshakes. Each handshake blocks the event loop, and many may arrive at
    once."""


PROBE_BOUNDS: Final = Bounds(
    MAX_CONNECTIONS, backlog=512, handshake_seconds=3.0, handshake_pause=0.004
)


class HttpConnections(Generic[C]):
    """A bound socket and its accepted connections."""

    def __init__(
        self,
        listening: socket.socket,
        certificate: CertificateReloader | None,
        bounds: Bounds,
        connect: Callable[[web.Server, dict[C, None]], C],
        log: logging.Logger,
    ) -> None:
        """Serve on a bound socket. HTTPS is used if there is a certificate.

        New connections use the most recently loaded certificate. `connect` creates a connection,
        given the HTTP server and the counted connections.
        """
        self._certificate = certificate
        self._bounds = bounds
        self._connect = connect
        self._log = log
        self.socket = listening
        self.socket.setblocking(False)
        self.address = address_of(self.socket)
        """The address with the port in use."""
        self._open: dict[C, None] = {}
        self._accepting: asyncio.Task[None] | None = None

    async def start(self, runner: web.BaseRunner) -> None:
        """Set up the runner, and start accepting connections for its server."""
        await runner.setup()
        if runner.server is None:
            raise AssertionError("the runner has no server")
        self.socket.listen(self._bounds.backlog)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(runner.server))

    async def close(self) -> None:
        """Stop accepting connections, and cancel pending handshakes."""
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
            # Let other tasks run during a connection storm.
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
                await asyncio.sleep(pauses.ACCEPT.first)
            except Exception:  # keep accepting
                self._log.exception("cannot accept a connection")
                await asyncio.sleep(pauses.ACCEPT.first)

    def _take(self, server: web.Server, accepted: socket.socket) -> None:
        """Start a connection. At the limit, abort the oldest connection, so that idle connections
        cannot block new ones.
        """
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
    """A connection to the operations port, aborted after a time limit."""

    __slots__ = ()

    def __init__(
        self, server: web.Server, connections: "dict[ProbeConnection, None]", line_bytes: int
    ) -> None:
        """Add this connection to `connections` until it is lost or admitted.

        `connections` is ordered by age; `line_bytes` is the maximum size of the request line and of
        each header.
        """
        super().__init__(
            server,
            connections,
            _LOG,
            keepalive_timeout=CONNECTION_SECONDS,
            max_line_size=line_bytes,
            max_field_size=line_bytes,
            lingering_time=DISCARD_SECONDS,
        )
        self.cut_after(CONNECTION_SECONDS)

    def admit(self, seconds: float) -> None:
        """Stop counting the connection until it is released, and extend its time limit to
        `seconds`.
        """
        self._open.pop(self, None)
        self.cut_after(seconds)

    def release(self) -> None:
        """Count the connection again, as the newest, while the client reads the response."""
        if self.transport is not None:
            self._open[self] = None
