"""Builds the HTTP server, which answers with the handlers of gRPC's methods."""

from queuegate_server.rpc.errors import to_status
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.server.listeners import Listeners
from queuegate_server.settings.model import Settings
from queuegate_server.transports.http.failures import HttpFailure, failure_of_status
from queuegate_server.transports.http.ports import HttpPorts
from queuegate_server.transports.http.server import HttpServer


def build_http(
    settings: Settings, listeners: Listeners, queue: LongCallQueue, *, shares_port: bool
) -> HttpPorts:
    """Build a server without handlers and addresses.

    Args:
        settings: The settings at service start.
        listeners: Authorize the callers.
        queue: Admits long bodies, together with the long calls of gRPC.
        shares_port: Whether other processes listen on the same ports.
    """

    def failure_of(error: Exception) -> HttpFailure:
        return failure_of_status(to_status(error).proto)

    limits = settings.limits
    server = HttpServer(
        settings.http,
        limits.max_message,
        admit=listeners.http_authorizer.admit_or_abort,
        in_turn=queue.in_turn,
        failure_of=failure_of,
        knows_token=listeners.http_authenticator.knows_token,
    )
    return HttpPorts(server, limits.connections.most, shares_port=shares_port)
