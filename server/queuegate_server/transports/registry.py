"""Which transport serves."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from queuegate_server.runtime.tcp import CannotListen
from queuegate_server.settings.limits import Connections
from queuegate_server.settings.listeners import Listener

if TYPE_CHECKING:  # imports grpc, which checking a file does not need
    from queuegate_server.transports.base import Transport

_TRANSPORTS: Final[Mapping[str, str]] = {
    "native": "queuegate_server.transports.native",
    "grpcio": "queuegate_server.transports.grpcio",
}
"""The module of each transport. `auto` takes the first one that can serve what is configured."""
_DEFAULT: Final = "grpcio"


def load(name: str) -> "Transport":
    """Return the transport of a name."""
    return cast("Transport", importlib.import_module(_TRANSPORTS[name]))


def choose(wanted: str, listeners: Sequence[Listener], connections: Connections) -> tuple[str, str]:
    """Return the name of the transport to use, and why `auto` did not take another one.

    Raises CannotListen if the wanted transport cannot serve what is configured.
    """
    if wanted == _DEFAULT:
        return wanted, ""
    passed_over: list[str] = []
    for name in _TRANSPORTS if wanted == "auto" else (wanted,):
        reasons = "; ".join(load(name).unsupported(listeners, connections))
        if not reasons:
            return name, "; ".join(passed_over)
        passed_over.append(reasons)
    raise CannotListen(f"{'; '.join(passed_over)}; use transport: {_DEFAULT}")
