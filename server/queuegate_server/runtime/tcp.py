"""TCP listening sockets: opens, reserves, checks and prints them."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final


class CannotListen(Exception):
    """An address is in use or not local, or its certificate unusable; the message has a remedy."""


_REMEDIES: Final = {
    errno.EADDRINUSE: "another process is listening there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "choose an address of this machine",
    errno.EACCES: "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
}


class UnusableFile(CannotListen):
    """A file that belongs to an address is unusable; the message names its key."""


def open_tcp(host: str, port: int) -> socket.socket:
    """Return a listening socket. With port 0, the system chooses one. Raises CannotListen."""
    with _listen_errors(host, port):
        opened = _bind(host, port)
        try:
            # Binding succeeds on a port on which another server listens; only listening fails.
            opened.listen()
        except OSError:
            opened.close()
            raise
    return opened


def reserve_tcp(host: str, port: int) -> socket.socket:
    """Return a socket that reserves a port, chosen by the system if 0, for processes that share it.

    It does not listen, and gets no connections. Raises CannotListen, including if another process
    listens there, which would share the port.
    """
    check_free(host, port)
    with _listen_errors(host, port):
        return _bind(host, port, shared=True)


def check_free(host: str, port: int) -> None:
    """Raise CannotListen if another process listens on an address of a name: gRPC would bind only
    the others, and clients could reach either server.
    """
    # gRPC uses both of these for localhost, regardless of its resolution on the machine.
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    places = []
    for each in hosts if port else ():
        with suppress(OSError):  # reported when it is bound
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
                raise CannotListen(_failure(host, port, error, at)) from None


def address_of(opened: socket.socket) -> str:
    """Return the address of a socket as text, with the port in use."""
    host, port = opened.getsockname()[:2]
    return _text(host, port)


def _bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
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
def _listen_errors(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotListen(_failure(host, port, error)) from None


def _failure(host: str, port: int, error: OSError, at: str = "") -> str:
    remedy = f": {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
    return f"{_text(host, port)!r}: {error.strerror or error}{at}{remedy}"


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
