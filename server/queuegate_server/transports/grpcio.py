"""The default transport: `grpc.aio`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from queuegate_server.settings.limits import Connections, Limits

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
            *_connection_args(limits.connections),
        ),
    )


def _connection_args(bounds: Connections) -> Iterator[tuple[str, int]]:
    """Yield the channel arguments for bounds on connections."""
    yield "grpc.max_allowed_incoming_connections", bounds.most
    yield "grpc.server_handshake_timeout_ms", milliseconds(bounds.handshake_timeout)
    # Above the first size gRPC refuses at random, above the second one always.
    yield "grpc.max_metadata_size", bounds.max_metadata
    yield "grpc.absolute_max_metadata_size", bounds.max_metadata
    if bounds.max_age:
        yield "grpc.max_connection_age_ms", milliseconds(bounds.max_age)
        yield "grpc.max_connection_age_grace_ms", milliseconds(bounds.max_age_grace)
    yield "grpc.keepalive_time_ms", milliseconds(bounds.keepalive_interval)
    yield "grpc.keepalive_timeout_ms", milliseconds(bounds.keepalive_timeout)
    yield "grpc.http2.min_ping_interval_without_data_ms", milliseconds(bounds.min_ping_interval)
    yield "grpc.http2.max_ping_strikes", bounds.max_ping_strikes
    # Without it, a client without calls may ping only every two hours.
    yield "grpc.keepalive_permit_without_calls", 1


def milliseconds(seconds: float) -> int:
    """Convert seconds, rounding up."""
    return math.ceil(seconds * 1000)


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
