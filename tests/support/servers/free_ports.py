"""Ports for servers that need one before startup."""

import itertools
import os
import socket
from typing import Final

_FIRST: Final = 20_000
_NUMBER: Final = 10_000
"""Below the ports that the kernel assigns to clients and to servers that request port 0, so that it
assigns none of these before the server starts.
"""
_held: list[socket.socket] = []
_offsets = itertools.count(os.getpid() * 97)


def free_port() -> int:
    """Return a port on which nobody listens, and which no other test process gets."""
    while True:
        port = _FIRST + next(_offsets) % _NUMBER
        if _is_ours(port) and _is_unused(port):
            return port


def _is_ours(port: int) -> bool:
    """Take a name that only one process may have, until it exits."""
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
