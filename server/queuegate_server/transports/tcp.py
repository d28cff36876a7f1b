"""Sockets for what is not gRPC."""

import contextlib
import errno
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


def check_free(host: str, port: int) -> None:
    """Refuse a name if somebody listens on one of its addresses: gRPC would be content with the
    others, and whoever connects by the name could reach either server.

    Raises CannotListen.
    """
    # gRPC takes both of these for localhost, whatever the machine says of it.
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    places = []
    for each in hosts if port else ():
        with contextlib.suppress(OSError):  # told when it is bound
            places += socket.getaddrinfo(
                each, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
                probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                at = "" if place[0] == host else f" ({place[0]})"
                raise CannotListen(f"{_text(host, port)!r}: {error.strerror}{at}") from None


def address_of(opened: socket.socket) -> str:
    """Return the address of a socket as text, with the port in use."""
    host, port = opened.getsockname()[:2]
    return _text(host, port)


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
