"""The operations port: /livez, /readyz, /startupz, /metrics, /version. HTTP without TLS.

Nothing here is secret or writable. A connection carries one request and ends after a few
seconds, whatever its peer does.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger

from queuegate_server.admin.readiness import versions
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admin")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_CONNECTION_SECONDS: Final = 5.0
MAX_CONNECTIONS: Final = 100
_REFUSED_AFTER_SECONDS: Final = 0.05
MAX_LINE_BYTES: Final = 2_048
MAX_HEADERS: Final = 64
_CLOSE_SECONDS: Final = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminSource(Protocol):
    """The content of the port. Each method returns within a few seconds."""

    async def readiness(self) -> dict[str, Any]:
        """Return why the server is `ready` or not."""

    async def startup(self) -> dict[str, Any]:
        """Return whether it has `started`."""

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format."""


class AdminServer:
    """Serves the operations port."""

    def __init__(self, address: HostPort, source: AdminSource) -> None:
        """Bind the address. Raises CannotListen."""
        self._socket = open_tcp(*address)
        self.address = address_of(self._socket)
        """The address with the port in use."""
        self._source = source
        self._version = versions()
        self._runner = web.AppRunner(
            self._app(),
            access_log=None,
            keepalive_timeout=_CONNECTION_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=0,
            auto_decompress=False,
            shutdown_timeout=_CLOSE_SECONDS,
        )
        self._listener: asyncio.Server | None = None
        server_logger.addFilter(_is_internal_error)

    async def start(self) -> None:
        """Start to serve."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._connection, sock=self._socket)
        _LOG.info("operations port is open", extra={"address": self.address})

    async def close(self) -> None:
        """Stop listening and end all connections, within two seconds."""
        if self._listener is not None:
            self._listener.close()
        else:
            self._socket.close()
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(middlewares=[_one_request], client_max_size=MAX_LINE_BYTES)
        for path, handler in (
            ("/livez", self._livez),
            ("/healthz", self._livez),
            ("/readyz", self._readyz),
            ("/startupz", self._startupz),
            ("/metrics", self._serve_metrics),
            ("/version", self._serve_version),
        ):
            app.router.add_get(path, handler)
        return app

    def _connection(self) -> asyncio.Protocol:
        """Accept a connection for a limited time, and close it soon if there are too many."""
        server = self._runner.server
        if server is None:
            raise RuntimeError("the port is closed")
        full = len(server.connections) >= MAX_CONNECTIONS
        connection = server()

        def cut() -> None:
            if connection.transport is not None:
                connection.transport.abort()

        seconds = _REFUSED_AFTER_SECONDS if full else _CONNECTION_SECONDS
        asyncio.get_running_loop().call_later(seconds, cut)
        return connection

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        details = await self._source.readiness()
        return _json(details, ok=details["ready"])

    async def _startupz(self, _: web.Request) -> web.Response:
        details = await self._source.startup()
        return _json(details, ok=details["started"])

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        body = await self._source.metrics()
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _serve_version(self, _: web.Request) -> web.Response:
        return _json(self._version, ok=True)


@web.middleware
async def _one_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Close the connection after each response, including errors."""
    try:
        response = await handler(request)
    except web.HTTPNotFound as error:
        paths = " ".join(resource.canonical for resource in request.app.router.resources())
        response = web.Response(
            status=error.status, text=f"{error.reason}; this port serves {paths}\n"
        )
    except web.HTTPException as error:
        response = web.Response(status=error.status, text=f"{error.reason}\n")
    response.headers["Server"] = "queuegate"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.force_close()
    return response


def _is_internal_error(record: logging.LogRecord) -> bool:
    """Keep tracebacks of malformed requests out of the log.

    A gRPC client that is configured with this port keeps sending them.
    """
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    _LOG.debug("a request is not HTTP", extra={"error": type(error).__name__})
    return False


def _json(content: dict[str, Any], *, ok: bool) -> web.Response:
    text = f"{json.dumps(content)}\n"
    return web.Response(text=text, content_type="application/json", status=200 if ok else 503)
