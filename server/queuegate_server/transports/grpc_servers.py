"""The server behind either transport, as composition and registration use it."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import grpc
import grpc.aio

from queuegate_server.settings.limits import Limits
from queuegate_server.transports.channel_args import connection_options
from queuegate_server.transports.choose import Transport
from queuegate_server.transports.grpcio import GrpcioServer
from queuegate_server.transports.refusal import Refusal

_ACCESS: Final = "/queuegate.v1.AccessService/"
_AT_ONCE: Final = (f"{_ACCESS}CheckQueueAccess", f"{_ACCESS}BatchCheckQueueAccess")
"""The hot path: these methods use no task before they first wait."""
_SPARE_CALLS: Final = 1000
"""How many calls a transport takes above the limit for ours: those of health and reflection, and
those that are being refused. These count for it until their status is sent, and beyond its own
bound it refuses everybody, without our details."""


class Server(Protocol):
    """The part of `grpc.aio.Server` that this one uses, and each transport has."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None:
        """Serve services, each with handlers by name."""

    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None:
        """Name the methods among them, for transports that look these up themselves."""

    def add_insecure_port(self, address: str, /) -> int:
        """Bind an address and return its port; raise RuntimeError."""

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials, /) -> int:
        """Do the same with TLS."""

    async def start(self) -> None:
        """Serve from now on."""

    async def stop(self, grace: float | None, /) -> None:
        """Take no more calls and end, after so many seconds for those under way."""


def make_server(
    transport: Transport, limits: Limits, refusal: Refusal, *, shares_port: bool
) -> Server:
    """Return a server with the limits; as one worker of several it shares its port.

    With `refusal` the native transport ends calls that it finds too much.
    """
    max_calls = limits.max_concurrent_calls + _SPARE_CALLS
    server = grpc.aio.server(
        maximum_concurrent_rpcs=max_calls,
        options=(
            ("grpc.max_receive_message_length", limits.max_message),
            ("grpc.max_send_message_length", -1),
            # Two servers on one port would answer from two policies; workers have one.
            ("grpc.so_reuseport", int(shares_port)),
            *connection_options(limits.connections),
        ),
    )
    if transport == "grpcio":
        return GrpcioServer(server)
    from queuegate_server.transports.native.server import NativeServer  # noqa: PLC0415 - an extra

    return NativeServer(
        server,
        max_message=limits.max_message,
        max_calls=max_calls,
        connections=limits.connections,
        shares_port=shares_port,
        at_once=_AT_ONCE,
        max_wait=limits.max_wait,
        refusal=refusal,
    )
