"""Ports for servers that need one before they start."""

import itertools
import os
import socket
from typing import Final

_FIRST: Final = 20_000
_NUMBER: Final = 10_000
"""Below the ports that the kernel gives to clients, and to servers that ask for port 0: it
gives none of these to anybody between here and the start of the server.
"""
_held: list[socket.socket] = []
_offsets = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a port that nobody listens on, and that no other process of the tests gets."""
    while True:
        port = _FIRST + next(_offsets) % _NUMBER
        if _is_ours(port) and _is_unused(port):
            return port


def _is_ours(port: int) -> bool:
    """Take a name that one process may have, until it ends."""
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0queuegate-tests-port-{port}")
    except OSError:
        name.close()
        return False
    _held.append(name)
    return True


def _is_unused(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
