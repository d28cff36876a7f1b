"""The HTTPS server, which drains before it stops."""

import asyncio
import logging
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from queuegate_server.admin.connections import TLS_SHUTDOWN_SECONDS, discard_body
from queuegate_server.admin.http import Handler
from queuegate_server.admission.server.bodies import error_response
from queuegate_server.admission.server.review_limits import GRACE_SECONDS
from queuegate_server.admission.server.tls_connections import WebhookConnection, WebhookConnections

_LOG = logging.getLogger("queuegate_server.admission")


class WebhookServer:
    """The webhook's HTTPS server. Limits the resources that clients can use."""

    def __init__(
        self,
        connections: WebhookConnections,
        routes: list[web.RouteDef],
        middlewares: Sequence[Middleware] = (),
    ) -> None:
        self._connections = connections
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        app = web.Application(middlewares=[self._bounded, *middlewares])
        app.add_routes(routes)
        app.on_response_prepare.append(self._before_headers)
        self._runner = web.AppRunner(app, shutdown_timeout=TLS_SHUTDOWN_SECONDS)

    async def start(self) -> None:
        """Start serving."""
        await self._connections.start(self._runner)

    def drain(self) -> None:
        """Close each connection after its next response, so that clients connect to another server.

        A request that arrives while its idle connection is being closed would fail.
        """
        self._draining = True

    async def close(self) -> None:
        """Stop listening, finish requests in progress, and close all connections."""
        self.drain()
        await self._connections.close()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            _LOG.warning("cancelling reviews in progress", extra={"in_flight": self._in_flight})
        await self._runner.cleanup()

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, WebhookConnection):
            raise TypeError("the connection is not a WebhookConnection")
        connection.touch()
        self._in_flight += 1
        self._idle.clear()
        try:
            refusal = self._connections.refusal(request)
            response = error_response(403, refusal) if refusal else await handler(request)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=f"{error.reason}\n")
        finally:
            connection.touch()
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()
        return response

    async def _before_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        if self._draining or not request.content.is_eof():
            response.force_close()
            response.headers["Connection"] = "close"
        discard_body(request)
        response.headers["Server"] = "queuegate"
