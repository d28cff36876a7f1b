"""Which transport serves: grpcio, or that of pygrpc-native where it can do what is set."""

import importlib.util
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.limits import Connections
from queuegate_server.settings.listeners import Listener

Transport = Literal["grpcio", "native"]

_PACKAGE: Final = "pygrpc_native"
_BOUNDS: Final = frozenset({"max_metadata", "keepalive_interval", "keepalive_timeout"})
"""Those of `limits.connections` that the native transport knows."""
STREAMS_FOLDER: Final = "queuegate-"
STREAMS_SOCKET: Final = "streams.sock"
"""Where it hands streams over: a socket in a folder for temporary files that begins so."""
_LONGEST_FOLDER: Final = 107 - len(f"/{STREAMS_FOLDER}12345678/{STREAMS_SOCKET}")


def choose(
    wanted: Literal["grpcio", "native", "auto"],
    listeners: Sequence[Listener],
    connections: Connections,
) -> tuple[Transport, str]:
    """Return the transport, and why it is not the native one (empty: it is).

    Raises CannotListen if `native` cannot do what is set.
    """
    if wanted == "grpcio":
        return "grpcio", "not asked for"
    against = "; ".join(_against(listeners, connections))
    if against and wanted == "native":
        raise CannotListen(f"{against}; use transport: grpcio")
    return ("grpcio", against) if against else ("native", "")


def _against(listeners: Sequence[Listener], connections: Connections) -> Iterator[str]:
    for listener in listeners:
        text = listener.address
        if listener.parsed.path:
            yield f"{text!r}: transport native has no Unix sockets"
        if listener.tls:
            yield f"{text!r}: transport native has no TLS"
        # It reads messages of any size before it refuses them, and does not tell the server
        # who is at the other end of a stream.
        if not listener.parsed.is_local:
            yield f"{text!r}: transport native serves this machine only"
        elif len(hosts := _hosts(listener.parsed.host)) > 1:
            yield f"{text!r}: transport native serves one address only, not {' and '.join(hosts)}"
    if len(listeners) > 1:
        yield f"{listeners[1].address!r}: transport native serves one address only"
    first = repr(listeners[0].address)
    # Also those that are set to what they are by default: whoever sets a bound counts on it.
    for key in sorted(connections.model_fields_set - _BOUNDS):
        yield f"{first}: transport native knows no limits.connections.{key}"
    if fault := _folder_fault():
        yield f"{first}: {fault}"
    if importlib.util.find_spec(_PACKAGE) is None:
        yield f"{first}: transport native is not installed: pip install 'queuegate[server,native]'"


def _hosts(host: str) -> list[str]:
    """Return what a name of this machine stands for; nothing if it cannot be told. Names of
    others are not asked for: no name server is waited for.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return []
    return sorted({str(place[0]) for *_, place in found})


def _folder_fault() -> str:
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        return (
            "transport native puts a socket into a folder, and finds none to write to: set TMPDIR"
        )
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        return (
            f"transport native puts a socket into TMPDIR, and {folder!r} is too long: at most"
            f" {_LONGEST_FOLDER} bytes"
        )
    return ""
