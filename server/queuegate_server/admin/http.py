"""The operations port: /livez, /readyz, /startupz, /metrics, /version, over HTTP or HTTPS.

None of these is secret or writable. A connection carries one request and ends after a few
seconds, whatever its peer does. Another application may share the port, with limits of its own.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger

from queuegate_server.admin.readiness import versions
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admin")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_CONNECTION_SECONDS: Final = 5.0
_HANDSHAKE_SECONDS: Final = 3.0
"""Less than the above: a connection is counted, and can be cut, after its handshake."""
ADMIT: Final = "queuegate.admit"
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


@dataclass(frozen=True, slots=True)
class Site:
    """An application that shares the port, with other limits than the probes.

    Its requests have the time of a probe, until it enters the context `request[ADMIT]()`, for
    callers that it knows.
    """

    prefix: str
    """The path that it is below, which ends in a slash; `/` redirects there."""
    app: web.Application
    max_line_bytes: int
    """The size of the first line of a request, and of each of its headers."""
    max_requests: int
    """How many of its requests may take long at once."""
    seconds: float
    """How long they may take."""


class AdminServer:
    """Serves the operations port."""

    def __init__(
        self,
        address: HostPort,
        source: AdminSource,
        certificate: CertificateReloader | None = None,
        site: Site | None = None,
    ) -> None:
        """Bind the address.

        Args:
            address: Where to listen.
            source: The content of the port.
            certificate: With it the port is HTTPS; each new connection gets the one that was
                loaded last.
            site: An application beside the probes.

        Raises:
            CannotListen: The address cannot be bound.
        """
        self._certificate = certificate
        self._site = site
        self._in_site = 0
        self._cuts: dict[object, asyncio.TimerHandle] = {}
        """By connection: what ends it."""
        self._socket = open_tcp(*address)
        self.address = address_of(self._socket)
        """The address with the port in use."""
        self._source = source
        self._version = versions()
        line_bytes = MAX_LINE_BYTES if site is None else site.max_line_bytes
        self._runner = web.AppRunner(
            self._app(),
            access_log=None,
            keepalive_timeout=_CONNECTION_SECONDS,
            max_line_size=line_bytes,
            max_field_size=line_bytes,
            max_headers=MAX_HEADERS,
            lingering_time=0,
            auto_decompress=False,
            # A page that nobody waits for any more is not worked on.
            handler_cancellation=site is not None,
            shutdown_timeout=_CLOSE_SECONDS,
        )
        self._listener: asyncio.Server | None = None
        server_logger.addFilter(_is_internal_error)

    async def start(self) -> None:
        """Start to serve."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._connection,
            sock=self._socket,
            ssl=None if self._certificate is None else _reloading_context(self._certificate),
            ssl_handshake_timeout=None if self._certificate is None else _HANDSHAKE_SECONDS,
        )
        _LOG.info("operations port is open", extra={"address": self.address})

    async def close(self) -> None:
        """Stop listening and end all connections, within two seconds."""
        if self._listener is not None:
            self._listener.close()
        else:
            self._socket.close()
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        site = self._site
        app = web.Application(
            middlewares=[_one_request, self._bounded], client_max_size=MAX_LINE_BYTES
        )
        for path, handler in (
            ("/livez", self._livez),
            ("/healthz", self._livez),
            ("/readyz", self._readyz),
            ("/startupz", self._startupz),
            ("/metrics", self._serve_metrics),
            ("/version", self._serve_version),
        ):
            app.router.add_get(path, handler)
        if site is not None:
            for path in ("/", site.prefix.rstrip("/")):
                app.router.add_get(path, self._to_site)
            app.add_subapp(site.prefix, site.app)
        return app

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Hold probes to their own limits: the port as a whole has those of the site."""
        site = self._site
        if site is None:
            return await handler(request)
        if not request.path.startswith(site.prefix):
            fields = (request.raw_path.encode(), *(value for _, value in request.raw_headers))
            if max(map(len, fields)) > MAX_LINE_BYTES:
                raise web.HTTPBadRequest
            return await handler(request)
        request[ADMIT] = partial(self._admit, site, request.protocol)
        return await handler(request)

    @contextmanager
    def _admit(self, site: Site, connection: web.RequestHandler) -> Iterator[None]:
        """Give a request of the site more time. Raises HTTPServiceUnavailable."""
        if self._in_site >= site.max_requests:
            raise web.HTTPServiceUnavailable
        self._in_site += 1
        try:
            self._cut_after(site.seconds, connection)
            yield
        finally:
            self._in_site -= 1

    async def _to_site(self, _: web.Request) -> web.Response:
        return web.Response(
            status=302, headers={"Location": self._site.prefix if self._site else "/"}
        )

    def _connection(self) -> asyncio.Protocol:
        """Accept a connection for a limited time, and close it soon if there are too many."""
        server = self._runner.server
        if server is None:
            raise RuntimeError("the port is closed")
        full = len(server.connections) >= MAX_CONNECTIONS
        connection = server()
        self._cut_after(_REFUSED_AFTER_SECONDS if full else _CONNECTION_SECONDS, connection)
        return connection

    def _cut_after(self, seconds: float, connection: web.RequestHandler) -> None:
        """End a connection after some seconds, and not earlier."""
        if (earlier := self._cuts.pop(connection, None)) is not None:
            earlier.cancel()

        def cut() -> None:
            del self._cuts[connection]
            if connection.transport is not None:
                connection.transport.abort()

        self._cuts[connection] = asyncio.get_running_loop().call_later(seconds, cut)

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


def _reloading_context(certificate: CertificateReloader) -> ssl.SSLContext:
    """Return a context that replaces itself by the certificate's at each handshake."""
    context = certificate.value.context

    def replace(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = certificate.value.context

    context.sni_callback = replace
    return context


def _json(content: dict[str, Any], *, ok: bool) -> web.Response:
    text = f"{json.dumps(content)}\n"
    return web.Response(text=text, content_type="application/json", status=200 if ok else 503)
