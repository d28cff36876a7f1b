"""The operations port: /livez, /readyz, /startupz, /metrics, /version, over HTTP or HTTPS.

These paths are public and read-only. A connection carries one request and lasts at most a few
seconds. Another application with its own limits may share the port.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aiohttp import web

from queuegate_server.admin.connections import (
    PROBE_BOUNDS,
    HttpConnections,
    ProbeConnection,
    complete_headers,
    discard_body,
)
from queuegate_server.admin.readiness import versions
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime.tcp import open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admin")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

ADMIT: Final = web.AppKey[Callable[[web.Request], AbstractContextManager[None]]]("queuegate.admit")
MAX_LINE_BYTES: Final = 2_048
_CLOSE_SECONDS: Final = 1.0
_SCRAPE_PAUSE_SECONDS: Final = 0.01
"""The pause before the metrics are rendered, which blocks the event loop for about as long."""
_SCRAPE_SECONDS: Final = 4.0
"""The time limit for a scrape. The port closes connections after 5 s."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminSource(Protocol):
    """The source of the data served on the port. Each method must return within a few seconds."""

    async def readiness(self) -> dict[str, Any]:
        """Return a JSON object with `ready` and details."""

    async def startup(self) -> dict[str, Any]:
        """Return a JSON object with `started` and details."""

    async def metrics(self) -> bytes:
        """Return the metrics in the Prometheus text format."""


@dataclass(frozen=True, slots=True)
class Site:
    """An application that shares the port but has its own limits.

    A request is subject to the probes' time limit until the application has authenticated the
    caller and enters the context `app[ADMIT](request)`.
    """

    prefix: str
    """The application's path, with a trailing slash. `/` redirects there."""
    app: web.Application
    max_line_bytes: int
    """The maximum size of the request line and of each header."""
    max_requests: int
    """The maximum number of admitted requests in progress."""
    seconds: float
    """The time limit for an admitted request."""


class AdminServer:
    """The operations port's HTTP server."""

    def __init__(
        self,
        address: HostPort,
        source: AdminSource,
        certificate: CertificateReloader | None = None,
        site: Site | None = None,
    ) -> None:
        """Bind the address. HTTPS is used if there is a certificate. Raises CannotListen.

        `site` is an application that shares the port.
        """
        self._site = site
        self._in_site = 0
        line_bytes = MAX_LINE_BYTES if site is None else site.max_line_bytes
        self._connections = HttpConnections(
            open_tcp(*address),
            certificate,
            PROBE_BOUNDS,
            lambda server, connections: ProbeConnection(server, connections, line_bytes),
            _LOG,
        )
        self.address = self._connections.address
        """The address with the port in use."""
        self._source = source
        self._scrape: asyncio.Task[bytes] | None = None
        self._version = versions()
        self._runner = web.AppRunner(
            self._app(),
            # With a site, stop rendering a page when its client disconnects.
            handler_cancellation=site is not None,
            shutdown_timeout=_CLOSE_SECONDS,
        )

    async def start(self) -> None:
        """Start serving."""
        await self._connections.start(self._runner)
        _LOG.info("operations port is open", extra={"address": self.address})

    async def close(self) -> None:
        """Stop listening and close all connections. Takes at most two seconds."""
        await self._connections.close()
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        site = self._site
        app = web.Application(
            middlewares=[_plain_errors, self._bounded], client_max_size=MAX_LINE_BYTES
        )
        app.on_response_prepare.append(_before_headers)
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
            site.app[ADMIT] = self._admit
            app.add_subapp(site.prefix, site.app)
        return app

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Apply the probes' limits outside the site, because connections allow the site's higher
        limits.
        """
        site = self._site
        if site is not None and not request.path.startswith(site.prefix):
            fields = (request.raw_path.encode(), *(value for _, value in request.raw_headers))
            if max(map(len, fields)) > MAX_LINE_BYTES:
                raise web.HTTPBadRequest
        return await handler(request)

    @contextmanager
    def _admit(self, request: web.Request) -> Iterator[None]:
        """Admit a request to the site for the duration of the context, and extend its time limit.
        Raises HTTPServiceUnavailable.
        """
        connection, site = request.protocol, self._site
        if site is None or not isinstance(connection, ProbeConnection):
            raise TypeError("the connection is not a ProbeConnection of a site")
        if self._in_site >= site.max_requests:
            raise web.HTTPServiceUnavailable
        self._in_site += 1
        try:
            connection.admit(site.seconds)
            yield
        finally:
            connection.release()
            self._in_site -= 1

    async def _to_site(self, _: web.Request) -> web.Response:
        return web.Response(
            status=302, headers={"Location": self._site.prefix if self._site else "/"}
        )

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        details = await self._source.readiness()
        return _json(details, ok=details["ready"])

    async def _startupz(self, _: web.Request) -> web.Response:
        details = await self._source.startup()
        return _json(details, ok=details["started"])

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        """Serve the metrics. Concurrent scrapes share one result."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.create_task(self._collect())
        async with asyncio.timeout(_SCRAPE_SECONDS):
            body = await asyncio.shield(self._scrape)
        return web.Response(body=body, headers={"Content-Type": METRICS_TYPE})

    async def _collect(self) -> bytes:
        await asyncio.sleep(_SCRAPE_PAUSE_SECONDS)
        return await self._source.metrics()

    async def _serve_version(self, _: web.Request) -> web.Response:
        return _json(self._version, ok=True)


@web.middleware
async def _plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Render errors as one line of plain text."""
    try:
        return await handler(request)
    except web.HTTPNotFound as error:
        paths = " ".join(resource.canonical for resource in request.app.router.resources())
        return web.Response(status=error.status, text=f"{error.reason}; this port serves {paths}\n")
    except web.HTTPException as error:
        return web.Response(status=error.status, text=f"{error.reason}\n")


async def _before_headers(request: web.Request, response: web.StreamResponse) -> None:
    complete_headers(response)
    discard_body(request)


def _json(content: dict[str, Any], *, ok: bool) -> web.Response:
    text = f"{json.dumps(content)}\n"
    return web.Response(text=text, content_type="application/json", status=200 if ok else 503)
