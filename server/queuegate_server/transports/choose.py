"""Which transport serves: grpcio, or that of pygrpc-native where it can do what is set."""

import importlib.util
from collections.abc import Sequence
from typing import Final, Literal

from queuegate_server.transports.listen import Address, CannotListen

Transport = Literal["grpcio", "native"]

_PACKAGE: Final = "pygrpc_native"


def choose(
    wanted: Literal["grpcio", "native", "auto"], addresses: Sequence[Address]
) -> tuple[Transport, str]:
    """Return the transport, and why it is not the native one (empty: it is).

    `auto` takes the native one only on loopback: it reads a message of any size into memory
    before it refuses it. Raises CannotListen if `native` cannot do what is set.
    """
    if wanted == "grpcio":
        return "grpcio", "not asked for"
    against = _against(addresses)
    if wanted == "native":
        if against:
            raise CannotListen(against)
        return "native", ""
    if not against and not addresses[0].is_local:
        against = f"{addresses[0].text!r}: transport auto keeps to grpcio beyond this machine"
    return ("grpcio", against) if against else ("native", "")


def _against(addresses: Sequence[Address]) -> str:
    first = addresses[0].text
    if importlib.util.find_spec(_PACKAGE) is None:
        return f"{first!r}: transport native needs pip install 'queuegate[server,native]'"
    for address in addresses:
        if address.path:
            return f"{address.text!r}: transport native has no Unix sockets; use grpcio"
    if len(addresses) > 1:
        return f"{addresses[1].text!r}: transport native serves one address only; use grpcio"
    return ""
