"""The optional pygrpc-native transport: gRPC in Rust. Only this folder imports the package."""

import importlib.util
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

from queuegate_server.settings.limits import Connections
from queuegate_server.settings.listeners import MAX_SOCKET_PATH_BYTES, Listener

STREAMS_FOLDER: Final = "queuegate-"
STREAMS_SOCKET: Final = "streams.sock"
"""The name of the socket to which streams are forwarded. It is in a temporary folder whose name
starts with STREAMS_FOLDER."""

_PACKAGE: Final = "pygrpc_native"
_SUPPORTED_BOUNDS: Final = frozenset({"max_streams"})
"""The keys of `limits.connections` that this transport supports."""
_RANDOM: Final = 8 * "x"
"""As many characters as `tempfile` adds to a folder's name."""
_MAX_FOLDER_BYTES: Final = MAX_SOCKET_PATH_BYTES - len(
    f"/{STREAMS_FOLDER}{_RANDOM}/{STREAMS_SOCKET}"
)


def unsupported(listeners: Sequence[Listener], connections: Connections) -> Iterator[str]:
    """Yield the reasons why this transport cannot serve the configuration."""
    for listener in listeners:
        text = listener.address
        if listener.parsed.path:
            yield f"{text!r}: transport native does not support Unix sockets"
        if listener.tls:
            yield f"{text!r}: transport native does not support TLS"
        # Remote callers are not supported because the transport reads a message of any size before
        # refusing it, and hides the addresses of streams' callers.
        if not listener.parsed.is_local:
            yield f"{text!r}: transport native serves only loopback addresses"
        elif len(hosts := _local_addresses(listener.parsed.host)) > 1:
            yield f"{text!r}: transport native serves only one address, not {' and '.join(hosts)}"
    if len(listeners) > 1:
        yield f"{listeners[1].address!r}: transport native serves only one address"
    first = repr(listeners[0].address)
    # Include bounds that are explicitly set to their defaults, because the operator relies on them.
    for key in sorted(connections.model_fields_set - _SUPPORTED_BOUNDS):
        yield f"{first}: transport native does not support limits.connections.{key}"
    if fault := _folder_fault():
        yield f"{first}: {fault}"
    if importlib.util.find_spec(_PACKAGE) is None:
        yield f"{first}: transport native is not installed: pip install 'queuegate[server,native]'"


def _local_addresses(host: str) -> list[str]:
    """Return a local host name's addresses; empty if the name cannot be resolved."""
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return []
    return sorted({str(address[0]) for *_, address in infos})


def _folder_fault() -> str:
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        return "transport native needs a writable temporary folder for a socket: set TMPDIR"
    if len(os.fsencode(folder)) > _MAX_FOLDER_BYTES:
        return (
            f"transport native creates a socket in TMPDIR, but {folder!r} is too long: at most"
            f" {_MAX_FOLDER_BYTES} bytes"
        )
    return ""
