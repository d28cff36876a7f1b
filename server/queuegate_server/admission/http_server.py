"""uvicorn with bounds on slow clients, several to one event loop, signals left alone."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HANDSHAKE_SECONDS: Final = 5.0
_SHUTDOWN_SECONDS: Final = 1.0
_HEADER_SECONDS: Final = 5.0
_HEADER_BYTES: Final = 64 * 1024
_KEEP_ALIVE_SECONDS: Final = 75
_MOST_CONNECTIONS: Final = 8192
_BACKLOG: Final = 2048


class _BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose headers must arrive in time and must not be endless."""

    _timer: asyncio.TimerHandle | None = None
    _header_bytes: int | None = 0
    """How much came since the headers began; None while there are none to wait for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_bytes is not None:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes is not None and self._header_bytes > _HEADER_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._header_bytes is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._header_bytes = None
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        self._stop_timer()
        self._header_bytes = 0
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpServer(uvicorn.Server):
    """Serves one application on one socket until `should_exit` is set."""

    def __init__(
        self,
        app: Starlette,
        listening: socket.socket,
        *,
        tls: ssl.SSLContext | None,
        grace_seconds: int,
    ) -> None:
        """Take a socket that is bound; `tls` None means plain HTTP."""
        config = uvicorn.Config(
            app,
            http=_BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace_seconds,
        )
        super().__init__(config)
        self._listening = listening
        self._tls = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002
        """Listen. uvicorn's own cannot bound the TLS handshake."""
        loop = asyncio.get_running_loop()
        bounds: dict[str, Any] = {}
        if self._tls:
            bounds = {
                "ssl": self._tls,
                "ssl_handshake_timeout": _HANDSHAKE_SECONDS,
                # An idle client does not answer that the connection ends.
                "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
            }
        server = await loop.create_server(
            self._protocol, sock=self._listening, backlog=_BACKLOG, **bounds
        )
        self.servers = [server]
        self.started = True

    def _protocol(self) -> asyncio.Protocol:
        return _BoundedProtocol(self.config, self.server_state, {})
