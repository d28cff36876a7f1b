"""The webhook's TLS connections, with limits on their number and memory.

A connection takes 80 KiB, or up to 300 KiB with a long header and a body that is not complete, so
all connections together take less than 200 MiB. At the limit, each new connection replaces the
connection that has been idle the longest.
"""

import gc
import logging
import socket
import ssl
import time
from typing import Final

from aiohttp import web

from queuegate_server.admin.connections import Bounds, HttpConnections
from queuegate_server.admin.keep_alive import KeepAliveConnection
from queuegate_server.admission.server.webhook_limits import MAX_CONNECTIONS
from queuegate_server.files.certificates import CertificateReloader
from queuegate_server.files.peer_certificate import peer_certificate
from queuegate_server.runtime.tcp import open_tcp
from queuegate_server.settings.listeners import HostPort

_LOG = logging.getLogger("queuegate_server.admission")
_SOCKET_BUFFER_BYTES: Final = 32 * 1024
_BOUNDS: Final = Bounds(MAX_CONNECTIONS, backlog=2048, handshake_seconds=5.0, handshake_pause=0.0)
_CONNECTIONS_PER_COLLECTION: Final = 100
"""The number of new connections after which garbage is collected. Closed connections are part of
reference cycles, so their buffers would otherwise not be freed in time.
"""


class WebhookConnections(HttpConnections[KeepAliveConnection]):
    """A listening socket and its accepted connections.

    Args:
        address: The address to listen on.
        certificate: The server's certificate and, optionally, the CA for client certificates.
        client_names: The names accepted in client certificates; empty to accept all.

    Raises:
        CannotListen: The address cannot be bound.
    """

    def __init__(
        self, address: HostPort, certificate: CertificateReloader, client_names: frozenset[str]
    ) -> None:
        super().__init__(open_tcp(*address), certificate, _BOUNDS, self._connection, _LOG)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._client_names = client_names
        self._until_collection = _CONNECTIONS_PER_COLLECTION

    def refusal(self, request: web.Request) -> str:
        """Return why the client's certificate is rejected, or an empty string if it is accepted."""
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
            return "the client's certificate has no name listed in admission.tls.client_names"
        return ""

    def _connection(
        self, server: web.Server, connections: dict[KeepAliveConnection, None]
    ) -> KeepAliveConnection:
        self._until_collection -= 1
        if not self._until_collection:
            self._until_collection = _CONNECTIONS_PER_COLLECTION
            gc.collect()
        return KeepAliveConnection(server, connections, _LOG)
