"""Ports that several processes listen on, chosen and kept by the supervisor."""

import socket
from collections.abc import Sequence
from contextlib import ExitStack

from queuegate_server.settings.addresses import Address
from queuegate_server.transports.tcp import CannotListen, check_free


def reserve(addresses: Sequence[Address], stack: ExitStack) -> tuple[int, ...]:
    """Return the port of each address, kept for this process and its workers until the
    stack closes; a free one where the address says 0.

    Another server on the port would answer from another policy: raises CannotListen if
    there is one.
    """
    return tuple(_reserve(address, stack) for address in addresses)


def _reserve(address: Address, stack: ExitStack) -> int:
    check_free(address.host, address.port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # Fails if anybody listens, also one who would share the port.
        with socket.socket(family, kind, protocol) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(place)
        # Bound but not listening: it holds the port and gets no connection.
        kept = stack.enter_context(socket.socket(family, kind, protocol))
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(place)
    except OSError as error:
        raise CannotListen(f"{address.text!r}: {error.strerror or error}") from None
    return int(kept.getsockname()[1])
