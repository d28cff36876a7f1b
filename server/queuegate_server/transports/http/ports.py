"""The addresses of the HTTP server: binding, connections and the end."""

import logging
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from queuegate_server.admin.connections import (
    TLS_SHUTDOWN_SECONDS,
    Bounds,
    HttpConnections,
)
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.runtime.tcp import open_tcp, share_tcp
from queuegate_server.settings.listeners import ListenAddress
from queuegate_server.transports.grpcio import HANDSHAKE_SECONDS
from queuegate_server.transports.http.context import HttpConnection
from queuegate_server.transports.http.server import HttpServer

_LOG = logging.getLogger("queuegate_server.transports")
_BACKLOG: Final = 2_048


class HttpPorts:
    """The addresses on which an HTTP server listens."""

    def __init__(self, server: HttpServer, max_connections: int, *, shares_port: bool) -> None:
        """Create a server without addresses.

        Args:
            server: Answers the requests.
            max_connections: The maximum number of connections on each address.
            shares_port: Whether other processes listen on the same ports.
        """
        self.server = server
        self._bounds = Bounds(max_connections, _BACKLOG, HANDSHAKE_SECONDS, handshake_pause=0.0)
        self._shares_port = shares_port
        self._ports: list[tuple[HttpConnections[HttpConnection], web.BaseRunner]] = []
        self._paths: list[Path] = []

    def open(
        self, address: ListenAddress, certificate: CertificateReloader | None, _text: str = ""
    ) -> int:
        """Bind an address, and return its port.

        Args:
            address: The address, with the port to bind.
            certificate: The certificate, if the address has TLS.
            _text: The address as gRPC writes it.

        Raises:
            CannotListen: The port cannot be bound.
            RuntimeError: The Unix socket cannot be created.
        """
        if address.path:
            bound = _open_unix(address.path)
            self._paths.append(Path(address.path))
        else:
            open_port = share_tcp if self._shares_port else open_tcp
            bound = open_port(address.host, address.port)
        connections = HttpConnections(bound, certificate, self._bounds, HttpConnection, _LOG)
        server = web.Server(
            partial(self.server.respond, is_local=address.is_local, is_unix=bool(address.path)),
            handler_cancellation=True,
        )
        runner = web.ServerRunner(server, shutdown_timeout=TLS_SHUTDOWN_SECONDS)
        self._ports.append((connections, runner))
        return 0 if address.path else int(bound.getsockname()[1])

    async def start(self) -> None:
        """Start serving."""
        for connections, runner in self._ports:
            await connections.start(runner)

    def drain(self) -> None:
        """Close each connection after its next response, so that clients connect elsewhere."""
        self.server.is_draining = True

    async def stop(self, grace: float | None) -> None:
        """Stop listening, and give requests in progress up to `grace` seconds to finish."""
        self.drain()
        for connections, _ in self._ports:
            await connections.close()
        for path in self._paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        await self.server.in_progress.wait(grace or 0.0)
        for _, runner in self._ports:
            await runner.cleanup()


def _open_unix(path: str) -> socket.socket:
    """Return a listening Unix socket. Raises RuntimeError."""
    try:
        # Left over from a server that was killed; nobody listens on it.
        Path(path).unlink(missing_ok=True)
        return socket.create_server(path, family=socket.AF_UNIX, backlog=_BACKLOG)
    except OSError as error:
        raise RuntimeError(str(error)) from None
