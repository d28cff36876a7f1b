"""The transports: what each of them offers to the rest of the server, and which one serves."""

import importlib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.limits import Connections, Limits
from queuegate_server.settings.listeners import Listener

if TYPE_CHECKING:  # checking a file needs no gRPC
    import grpc

_TRANSPORTS: Final[Mapping[str, str]] = {
    "native": "queuegate_server.transports.native",
    "grpcio": "queuegate_server.transports.grpcio",
}
"""The module of each transport. `auto` takes the first one that can serve what is configured."""
_DEFAULT: Final = "grpcio"


class Refusal(NamedTuple):
    """How a transport refuses calls itself, before a handler sees them."""

    message: str
    trailing: tuple[tuple[str, str | bytes], ...]
    """The trailing metadata."""
    counts: MutableMapping[str, int]
    """Where refused calls are counted, by the bound that was reached."""


class Server(Protocol):
    """The part of `grpc.aio.Server` that this server uses."""

    def add_generic_rpc_handlers(self, handlers: "Sequence[grpc.GenericRpcHandler]", /) -> None:
        """Serve services, each with handlers by the name of the method."""

    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None:
        """Register the methods of a service, for transports that look them up themselves."""

    def add_insecure_port(self, address: str, /) -> int:
        """Bind an address and return its port; raise RuntimeError."""

    def add_secure_port(self, address: str, server_credentials: "grpc.ServerCredentials", /) -> int:
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
            refusal: How it refuses calls itself.
            shares_port: Whether other processes listen on the same port.
        """


def load_transport(name: str) -> Transport:
    """Return the transport of a name."""
    return cast("Transport", importlib.import_module(_TRANSPORTS[name]))


def choose(wanted: str, listeners: Sequence[Listener], connections: Connections) -> tuple[str, str]:
    """Return the name of the transport to use, and why `auto` did not take another one.

    Raises CannotListen if the wanted transport cannot serve what is configured.
    """
    if wanted == _DEFAULT:
        return wanted, "not asked for"
    passed_over: list[str] = []
    for name in _TRANSPORTS if wanted == "auto" else (wanted,):
        reasons = "; ".join(load_transport(name).unsupported(listeners, connections))
        if not reasons:
            return name, "; ".join(passed_over)
        passed_over.append(reasons)
    raise CannotListen(f"{'; '.join(passed_over)}; use transport: {_DEFAULT}")
