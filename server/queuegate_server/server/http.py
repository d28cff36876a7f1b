"""Builds the HTTP server, which answers with the handlers of gRPC's methods."""

from collections.abc import Callable
from typing import Any, NamedTuple

from queuegate_server.rpc.errors import Overloaded, to_status
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.server.listeners import Listeners
from queuegate_server.settings.model import Settings
from queuegate_server.transports.http.failures import CallFailed, failure_of_status
from queuegate_server.transports.http.ports import HttpPorts
from queuegate_server.transports.http.server import HttpServer


class HttpParts(NamedTuple):
    """The HTTP server and its addresses."""

    server: HttpServer
    ports: HttpPorts


def build_http(
    settings: Settings, listeners: Listeners, queue: LongCallQueue, *, shares_port: bool
) -> HttpParts:
    """Build a server without handlers and addresses.

    Args:
        settings: The settings at service start.
        listeners: Authorize the callers.
        queue: Admits long bodies, together with the long calls of gRPC.
        shares_port: Whether other processes listen on the same ports.
    """

    async def in_turn(body: bytes, work: Callable[[], Any]) -> Any:
        try:
            return await queue.in_turn(body, work)
        except Overloaded as error:
            raise CallFailed(failure_of_status(to_status(error).proto)) from None

    limits = settings.limits
    server = HttpServer(
        settings.http,
        limits.max_message,
        listeners.http_authorizer.admit_or_abort,
        in_turn,
        listeners.http_authenticator.knows_token,
    )
    ports = HttpPorts(server, limits.connections.most, shares_port=shares_port)
    return HttpParts(server, ports)
