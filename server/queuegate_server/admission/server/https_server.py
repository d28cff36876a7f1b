"""The HTTPS server, which drains before it stops."""

import logging
from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Middleware

from queuegate_server.admin.bodies import error_response
from queuegate_server.admin.connections import TLS_SHUTDOWN_SECONDS, discard_body
from queuegate_server.admin.http import Handler
from queuegate_server.admin.keep_alive import InProgress, KeepAliveConnection
from queuegate_server.admission.server.tls_connections import WebhookConnections
from queuegate_server.admission.server.webhook_limits import GRACE_SECONDS

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
        self._in_progress = InProgress()
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

        Idle connections stay open until then, because a request that arrives while its connection
        is being closed would fail.
        """
        self._draining = True

    async def close(self) -> None:
        """Stop listening, finish requests in progress, and close all connections."""
        self.drain()
        await self._connections.close()
        if not await self._in_progress.wait(GRACE_SECONDS):
            fields = {"in_flight": self._in_progress.count}
            _LOG.warning("cancelling reviews in progress", extra=fields)
        await self._runner.cleanup()

    @web.middleware
    async def _bounded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, KeepAliveConnection):
            raise TypeError("the connection is not a KeepAliveConnection")
        self._in_progress.begin(connection)
        try:
            refusal = self._connections.refusal(request)
            return error_response(403, refusal) if refusal else await handler(request)
        except web.HTTPException as error:
            return web.Response(status=error.status, text=f"{error.reason}\n")
        finally:
            self._in_progress.end(connection)

    async def _before_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        if self._draining or not request.content.is_eof():
            response.force_close()
            response.headers["Connection"] = "close"
        discard_body(request)
        response.headers["Server"] = "queuegate"
