"""Ports that several processes listen on, chosen and kept by the supervisor."""

from collections.abc import Sequence
from contextlib import ExitStack

from queuegate_server.runtime.tcp import reserve_tcp
from queuegate_server.settings.addresses import Address


def reserve(addresses: Sequence[Address], stack: ExitStack) -> tuple[int, ...]:
    """Return the port of each address, kept for this process and its workers until the
    stack closes; a free one where the address says 0.

    Another server on the port would answer from another policy: raises CannotListen if
    there is one.
    """
    kept = (stack.enter_context(reserve_tcp(one.host, one.port)) for one in addresses)
    return tuple(int(socket.getsockname()[1]) for socket in kept)
