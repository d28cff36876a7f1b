"""Accepts the connections of the webhook's port, over TLS, within bounds on what they may cost.

A connection costs 30 KiB, and with data that wait to be read up to 300 KiB, so all of them need
less than 400 MiB. Those beyond the bound are closed before the handshake, which costs most.
"""

import asyncio
import logging
import socket
import ssl
import time
from typing import Any, Final

from aiohttp import web

from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.peer_certificate import peer_certificate
from queuegate_server.runtime.tcp import address_of, open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admission")
MAX_CONNECTIONS: Final = 1024
"""Three API servers with their defaults have 600 requests in progress at most."""
READ_BUFFER_BYTES: Final = 16 * 1024
"""How much of a body is decrypted before it is asked for."""
_SOCKET_BUFFER_BYTES: Final = 32 * 1024
_BACKLOG: Final = 2048
_HANDSHAKE_SECONDS: Final = 5.0
TLS_SHUTDOWN_SECONDS: Final = 1.0
"""An idle client does not answer the end of the connection."""
_FIRST_REQUEST_SECONDS: Final = 10.0
"""From the end of the handshake until the headers of the first request have arrived."""
_RETRY_SECONDS: Final = 0.1
"""After a connection could not be accepted, for example for want of file descriptors."""


class Connections:
    """The listening socket, and the connections that are being made."""

    def __init__(
        self, address: HostPort, certificate: CertificateReloader, client_names: frozenset[str]
    ) -> None:
        """Bind the address; new connections get the certificate that was loaded last.

        Args:
            address: Where to listen.
            certificate: The server's certificate, and the authority of clients if any.
            client_names: If there are any, the client's certificate must have one of them.

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
        self._handshakes: set[asyncio.Task[None]] = set()
        self._without_request: set[asyncio.BaseProtocol] = set()

    async def accept(self, server: web.Server) -> None:
        """Accept connections and hand them to an HTTP server, until cancelled."""
        loop = asyncio.get_running_loop()
        self._socket.listen(_BACKLOG)
        while True:
            # So that a storm of connections leaves time for requests.
            await asyncio.sleep(0)
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                _LOG.warning("cannot accept a connection", extra={"error": str(error)})
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._handshakes) + len(server.connections) >= MAX_CONNECTIONS:
                accepted.close()
                continue
            task = loop.create_task(self._begin(accepted, server))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        for task in self._handshakes:
            task.cancel()

    def has_request(self, connection: asyncio.BaseProtocol) -> None:
        """Take note that the headers of a request have arrived."""
        self._without_request.discard(connection)

    def refusal(self, request: web.Request) -> str:
        """Return why the client's certificate does not count; empty if it does."""
        if not self._client_names:
            return ""
        if request.transport is None:
            return "the connection is lost"
        der = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        peer = peer_certificate(ssl.DER_cert_to_PEM_cert(der).encode())
        if peer.fault:
            return f"the client's certificate does not count: {peer.fault}"
        if peer.not_after <= time.time():
            return "the client's certificate has expired"
        if self._client_names.isdisjoint(peer.names):
            return "the client's certificate has none of the names that --client-name lists"
        return ""

    async def _begin(self, accepted: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        connection = server()
        transport: Any  # The type of TLS transports is not public.
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._certificate.value.context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # also of TLS
            _LOG.debug("a connection has failed", extra={"error": str(error)})
            return
        transport.set_read_buffer_limits(READ_BUFFER_BYTES)
        self._without_request.add(connection)

        def cut() -> None:
            if connection in self._without_request:
                self._without_request.discard(connection)
                transport.abort()

        loop.call_later(_FIRST_REQUEST_SECONDS, cut)
