"""Accepts TLS connections on the webhook's port, with bounds on their cost.

A connection costs 30 KiB, or up to 300 KiB with unread data, so all of them need less than 400 MiB.
Beyond the bound, a new connection replaces the one that has been idle longest, so idle connections
keep nobody out.
"""

import asyncio
import gc
import itertools
import logging
import socket
import ssl
import time
from typing import Any, Final

from aiohttp import web

from queuegate_server.admin.connections import malformed
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.peer_certificate import peer_certificate
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admission")
MAX_CONNECTIONS: Final = 1024
"""Three API servers with default settings have at most 600 requests in progress."""
READ_BUFFER_BYTES: Final = 16 * 1024
"""The amount of a body that is decrypted before it is read."""
_SOCKET_BUFFER_BYTES: Final = 32 * 1024
_BACKLOG: Final = 2048
_HANDSHAKE_SECONDS: Final = 5.0
TLS_SHUTDOWN_SECONDS: Final = 1.0
"""An idle client does not respond when the connection is closed."""
_FIRST_REQUEST_SECONDS: Final = 10.0
"""The time limit from the end of the handshake until the headers of the first request have
arrived."""
_KEEP_ALIVE_SECONDS: Final = 75.0
_LINGERING_SECONDS: Final = 2.0
"""The time for reading the rest of a rejected body, so that the client reads the response."""
_MAX_HEADERS: Final = 64
_CONNECTIONS_PER_COLLECTION: Final = 100
"""A closed connection is part of a cycle, so only a collection frees its buffers."""
_RETRY_SECONDS: Final = 0.1
"""The pause after a failed accept, for example for lack of file descriptors."""


class Connection(web.RequestHandler):
    """A connection from before its handshake until it is lost."""

    __slots__ = ("_all", "has_asked", "task")

    def __init__(self, server: web.Server, everyone: "dict[Connection, None]") -> None:
        """Add this connection to the given ones until it is lost."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            max_headers=_MAX_HEADERS,
            read_bufsize=READ_BUFFER_BYTES,
        )
        self._all = everyone
        self._all[self] = None
        self.has_asked = False
        self.task: asyncio.Task[None]
        """Done when the first request has arrived or is late."""

    def touch(self) -> None:
        """Record that a request has begun or ended."""
        self.has_asked = True
        if self in self._all:
            del self._all[self]
            self._all[self] = None

    def cut(self) -> None:
        """Abort the connection."""
        self._all.pop(self, None)
        self.task.cancel()
        if self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Remove this connection."""
        self._all.pop(self, None)
        self.task.cancel()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond without the name and version of the library."""
        del message
        return malformed(request, status, exc, _LOG)


class Connections:
    """The listening socket, and the connections being established."""

    def __init__(
        self, address: HostPort, certificate: CertificateReloader, client_names: frozenset[str]
    ) -> None:
        """Bind the address. New connections get the most recently loaded certificate.

        Args:
            address: The address to listen on.
            certificate: The server's certificate, and the authority for client certificates, if
                any.
            client_names: If not empty, the client's certificate must have one of these names.

        Raises:
            CannotListen: The address cannot be bound.
        """
        self._socket = open_tcp(*address)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._socket.setblocking(False)
        self.address = address_of(self._socket)
        """The address with the port in use."""
        self._certificate = certificate
        self._client_names = client_names
        self._open: dict[Connection, None] = {}
        """The connections, the longest idle first."""

    async def accept(self, server: web.Server) -> None:
        """Accept connections and hand them to an HTTP server, until cancelled."""
        loop = asyncio.get_running_loop()
        self._socket.listen(_BACKLOG)
        for count in itertools.count(1):
            if count % _CONNECTIONS_PER_COLLECTION == 0:
                gc.collect()
            # Leaves time for requests during a storm of connections.
            await asyncio.sleep(0)
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                _LOG.warning("cannot accept a connection", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._open) >= MAX_CONNECTIONS:
                next(iter(self._open)).cut()
            connection = Connection(server, self._open)
            connection.task = loop.create_task(self._begin(connection, accepted))

    def close(self) -> None:
        """Stop listening, and close connections without a request."""
        self._socket.close()
        for connection in list(self._open):
            connection.task.cancel()

    def refusal(self, request: web.Request) -> str:
        """Return why the client's certificate is not accepted; empty if it is."""
        if not self._client_names:
            return ""
        if request.transport is None:
            return "the connection is lost"
        der = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        peer = peer_certificate(ssl.DER_cert_to_PEM_cert(der).encode())
        if peer.fault:
            return f"the client's certificate is not accepted: {peer.fault}"
        if peer.not_after <= time.time():
            return "the client's certificate has expired"
        if self._client_names.isdisjoint(peer.names):
            return "the client's certificate has no name listed with --client-name"
        return ""

    async def _begin(self, connection: Connection, accepted: socket.socket) -> None:
        transport: Any  # The type of TLS transports is not public.
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate.value.context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # for TLS as well
            self._open.pop(connection, None)
            _LOG.debug("connection failed", extra={"error": str(error)})
            return
        transport.set_read_buffer_limits(READ_BUFFER_BYTES)
        await asyncio.sleep(_FIRST_REQUEST_SECONDS)
        if not connection.has_asked:
            connection.cut()
