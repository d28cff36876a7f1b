"""TCP ports of this machine: opened, reserved, and as text."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CannotListen(Exception):
    """An address is taken or not ours, or its certificate is not usable; the message says
    what to do.
    """


class UnusableFile(CannotListen):
    """A file beside the addresses is not usable; the message names its key."""


def open_tcp(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 lets the system choose. Raises CannotListen."""
    with _told(host, port):
        opened = _bound(host, port)
        try:
            # A port that another server listens on can be bound; only this tells.
            opened.listen()
        except OSError:
            opened.close()
            raise
    return opened


def reserve_tcp(host: str, port: int) -> socket.socket:
    """Return a socket that keeps a port for processes that share it; port 0 lets the system
    choose. It does not listen, so that it gets no connection.

    Raises CannotListen, also if another process listens there and would share the port.
    """
    check_free(host, port)
    with _told(host, port):
        return _bound(host, port, shared=True)


def check_free(host: str, port: int) -> None:
    """Refuse a name if somebody listens on one of its addresses: gRPC would be content with the
    others, and whoever connects by the name could reach either server.

    Raises CannotListen.
    """
    # gRPC takes both of these for localhost, whatever the machine says of it.
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    places = []
    for each in hosts if port else ():
        with suppress(OSError):  # told when it is bound
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


def _bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(place)
    except OSError:
        opened.close()
        raise
    return opened


@contextmanager
def _told(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotListen(f"{_text(host, port)!r}: {error.strerror or error}") from None


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
