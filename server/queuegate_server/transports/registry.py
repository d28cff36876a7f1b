"""Chooses and builds a transport, and configures gRPC for either transport."""

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.limits import Connections, Limits
from queuegate_server.settings.listeners import Listener
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports import native

if TYPE_CHECKING:  # commands that only check files must not import gRPC
    from queuegate_server.transports.grpcio import GrpcioServer
    from queuegate_server.transports.native.server import NativeServer
    from queuegate_server.transports.stalls import Refusal

GRPC_ENVIRONMENT: Final = {
    # Our log already covers what gRPC would write to stderr.
    "GRPC_VERBOSITY": "NONE",
    # Since 1.80, gRPC's event engine hands each call to more threads, which costs a fifth more CPU
    # time.
    "GRPC_EXPERIMENTS": "-event_engine_listener",
}


Server: TypeAlias = "GrpcioServer | NativeServer"
"""A server with the subset of `grpc.aio.Server` that all transports provide."""


def set_grpc_environment(environment: MutableMapping[str, str]) -> None:
    """Apply GRPC_ENVIRONMENT to variables that are unset. Call this before importing gRPC."""
    for name, value in GRPC_ENVIRONMENT.items():
        environment.setdefault(name, value)


def choose(wanted: str, listeners: Sequence[Listener], connections: Connections) -> tuple[str, str]:
    """Return the transport's name and, unless it is native, the reason. Raises CannotListen."""
    if wanted == "grpcio":
        return wanted, "not requested"
    reasons = "; ".join(native.unsupported(listeners, connections))
    if not reasons:
        return "native", ""
    if wanted == "auto":
        return "grpcio", reasons
    raise CannotListen(f"{reasons}; use transport: grpcio")


def build(
    transport: str, limits: Limits, unread: ByteBudget, refusal: "Refusal", *, shares_port: bool
) -> Server:
    """Create a server with no ports yet.

    Args:
        transport: The result of `choose`.
        limits: The limits on calls and connections.
        unread: The budget for unwritten response bytes.
        refusal: The status of calls refused before they reach a handler.
        shares_port: Whether other processes listen on the same port.
    """
    if transport == "native":
        from queuegate_server.transports.native import server  # noqa: PLC0415 - an extra

        return server.NativeServer(limits, unread, refusal, shares_port=shares_port)
    from queuegate_server.transports import grpcio, stalls  # noqa: PLC0415 - imports gRPC

    watch = stalls.Stalls(stalls.TRANSFER_SECONDS, unread, refusal)
    return grpcio.GrpcioServer(grpcio.aio_server(limits, shares_port=shares_port), watch)
