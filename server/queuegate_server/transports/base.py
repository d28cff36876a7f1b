"""What a transport offers to the rest of the server."""

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

import grpc

from queuegate_server.settings.limits import Connections, Limits
from queuegate_server.settings.listeners import Listener


class Refusal(NamedTuple):
    """How a transport refuses calls of its own accord, before a handler sees them."""

    message: str
    trailing: tuple[tuple[str, str | bytes], ...]
    """The trailing metadata."""
    counts: MutableMapping[str, int]
    """Where refused calls are counted, by the bound that was reached."""


class Server(Protocol):
    """The part of `grpc.aio.Server` that this server uses."""

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None:
        """Serve services, each with handlers by the name of the method."""

    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None:
        """Register the methods of a service, for transports that look them up themselves."""

    def add_insecure_port(self, address: str, /) -> int:
        """Bind an address and return its port; raise RuntimeError."""

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials, /) -> int:
        """Bind an address with TLS and return its port; raise RuntimeError."""

    async def start(self) -> None:
        """Start to serve."""

    async def stop(self, grace: float | None, /) -> None:
        """Accept no more calls, and end; calls in progress have `grace` seconds to finish."""


class Transport(Protocol):
    """A module that makes servers of one kind."""

    def unsupported(self, listeners: Sequence[Listener], connections: Connections) -> Iterable[str]:
        """Yield the reasons why this transport cannot serve what is configured."""

    def build(self, limits: Limits, refusal: Refusal, *, shares_port: bool) -> Server:
        """Return a server.

        Args:
            limits: The limits on calls and connections.
            refusal: How it refuses calls of its own accord.
            shares_port: Whether other processes listen on the same port.
        """
