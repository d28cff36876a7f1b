"""Sockets for what is not gRPC."""

import socket


class CannotListen(Exception):
    """An address is taken or not ours, or its certificate is not usable; the message says
    what to do.
    """


class UnusableFile(CannotListen):
    """A file beside the addresses is not usable; the message names its key."""


def open_tcp(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and not yet listened on; port 0 lets the system choose.

    Raises CannotListen.
    """
    text = _text(host, port)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(f"{text!r}: {error.strerror or error}") from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(place)
        # A port that another server listens on can be bound; only this tells.
        opened.listen()
    except OSError as error:
        opened.close()
        raise CannotListen(f"{text!r}: {error.strerror or error}") from None
    return opened


def address_of(opened: socket.socket) -> str:
    """Return the address of a socket as text, with the port in use."""
    host, port = opened.getsockname()[:2]
    return _text(host, port)


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
