"""Which transport serves: grpcio, or that of pygrpc-native where it can do what is set."""

import importlib.util
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from queuegate_server.settings.connections import Connections
from queuegate_server.settings.listeners import Listener
from queuegate_server.transports.tcp import CannotListen

Transport = Literal["grpcio", "native"]

_PACKAGE: Final = "pygrpc_native"
_BOUNDS: Final = frozenset({"max_metadata", "keepalive_interval", "keepalive_timeout"})
"""Those of `limits.connections` that the native transport knows."""


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
    if len(listeners) > 1:
        yield f"{listeners[1].address!r}: transport native serves one address only"
    defaults = dict(Connections())
    for key, value in connections:
        if key not in _BOUNDS and value != defaults[key]:
            yield f"{listeners[0].address!r}: transport native knows no limits.connections.{key}"
    if importlib.util.find_spec(_PACKAGE) is None:
        yield (
            f"{listeners[0].address!r}: transport native is not installed:"
            " pip install 'queuegate[server,native]'"
        )
