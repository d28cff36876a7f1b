"""The transport of grpcio: `grpc.aio`, and in which of its lines calls wait."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio

_LINES_OF_THEIR_OWN: Final = frozenset(
    {"/grpc.health.v1.Health/Check", "/queuegate.v1.AccessService/CheckQueueAccess"}
)
"""Who looks after this server must learn that it works, however much is asked of it; and a flood
of long calls must not stand before single checks, nor these before all else. So with streams, of
which a client may open thousands at once: gRPC drops what comes into a line that is too long."""


class GrpcioServer:
    """Serves what `grpc.aio.Server` serves; most methods share one line.

    `grpc.aio` waits for the next call of each registered method apart, and goes through all of
    them at every call. With twenty methods that took a third more processor time for a call,
    about 2 µs for each method.

    Used from the event loop on which it is started.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        """Take the server that serves."""
        self._server = server

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]
    ) -> None:
        """Serve services, each with handlers by name."""
        self._server.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        """Give few methods a line of their own. All are served as generic handlers anyway."""
        apart = {
            name: handler
            for name, handler in method_handlers.items()
            if handler.request_streaming
            or handler.response_streaming
            or f"/{service_name}/{name}" in _LINES_OF_THEIR_OWN
        }
        if apart:
            self._server.add_registered_method_handlers(service_name, apart)

    def add_insecure_port(self, address: str) -> int:
        """Bind an address and return its port; raise RuntimeError."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Do the same with TLS."""
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Serve from now on."""
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls and end, after so many seconds for those under way."""
        await self._server.stop(grace)
