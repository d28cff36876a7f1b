"""The default transport: `grpc.aio`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from queuegate_server.settings.limits import Connections, Limits
from queuegate_server.settings.listeners import Listener
from queuegate_server.transports.channel_args import connection_args
from queuegate_server.transports.registry import Refusal

_SPARE_CALLS: Final = 1000
"""Calls that gRPC accepts beyond our own limit: those of health and reflection, and those that are
being refused, which count until their status is sent. Beyond its bound gRPC refuses every call,
without our details.
"""
_REGISTERED: Final = frozenset(
    {"/grpc.health.v1.Health/Check", "/queuegate.v1.AccessService/CheckQueueAccess"}
)
"""Methods with a queue of their own: health checks must be answered however many other calls there
are, and a flood of long calls must not hold up single checks. Streams have theirs too: a client may
open thousands at once, and gRPC drops calls from a queue that is too long.
"""


def unsupported(_listeners: Sequence[Listener], _connections: Connections) -> Iterable[str]:
    """Yield nothing: this transport serves all that can be configured."""
    return ()


def build(limits: Limits, _refusal: Refusal, *, shares_port: bool) -> "GrpcioServer":
    """Return a server; see `registry.Transport`."""
    return GrpcioServer(aio_server(limits, shares_port=shares_port))


def max_calls(limits: Limits) -> int:
    """Return how many calls a transport accepts at once."""
    return limits.max_concurrent_calls + _SPARE_CALLS


def aio_server(limits: Limits, *, shares_port: bool) -> grpc.aio.Server:
    """Return a server of grpc.aio with limits."""
    return grpc.aio.server(
        maximum_concurrent_rpcs=max_calls(limits),
        options=(
            ("grpc.max_receive_message_length", limits.max_message),
            ("grpc.max_send_message_length", -1),
            # Two unrelated servers on one port would answer from two policies.
            ("grpc.so_reuseport", int(shares_port)),
            *connection_args(limits.connections),
        ),
    )


class GrpcioServer:
    """Serves what `grpc.aio.Server` serves, with one queue for most methods.

    `grpc.aio` waits for the next call of each registered method separately, and goes through all
    of these waits at every call, which costs about 2 µs for each method: a third of the processor
    time of a call with twenty methods. So only few methods are registered; the generic handlers
    serve the others.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        """Serve by a server of grpc.aio."""
        self._server = server

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]
    ) -> None:
        """Serve services, each with handlers by the name of the method."""
        self._server.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        """Register few methods; all of them have been added as generic handlers."""
        registered = {
            name: handler
            for name, handler in method_handlers.items()
            if handler.request_streaming
            or handler.response_streaming
            or f"/{service_name}/{name}" in _REGISTERED
        }
        if registered:
            self._server.add_registered_method_handlers(service_name, registered)

    def add_insecure_port(self, address: str) -> int:
        """Bind an address and return its port; raise RuntimeError."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Bind an address with TLS and return its port; raise RuntimeError."""
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Start to serve."""
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        """Accept no more calls, and end; calls in progress have `grace` seconds to finish."""
        await self._server.stop(grace)
