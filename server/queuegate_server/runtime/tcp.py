"""Opens, reserves and checks TCP listening sockets."""

import errno
import socket
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final


class CannotListen(Exception):
    """An address or its certificate cannot be used; the message names a remedy."""


_REMEDIES: Final = {
    errno.EADDRINUSE: "another process is listening there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "choose an address of this machine",
    errno.EACCES: "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
}


class UnusableFile(CannotListen):
    """A certificate, key or token file is unusable; the message names the setting."""


def open_tcp(host: str, port: int) -> socket.socket:
    """Open a listening socket. With port 0, the system chooses a port. Raises CannotListen."""
    return _bind(host, port, shared=False)


def reserve_tcp(host: str, port: int) -> socket.socket:
    """Reserve a port for processes that share it. With port 0, the system chooses a port.

    The socket does not listen. Raises CannotListen if another process is already listening on the
    port, because otherwise the two would share it.
    """
    check_free(host, port)
    return _bind(host, port, shared=True)


def share_tcp(host: str, port: int) -> socket.socket:
    """Bind a port that was reserved for several processes. Raises CannotListen."""
    return _bind(host, port, shared=True)


def check_free(host: str, port: int) -> None:
    """Raise CannotListen if another process is listening on any of a host's addresses.

    Otherwise, gRPC would bind only the free addresses, and clients could reach either server.
    """
    # For localhost, gRPC binds both loopback addresses, however the machine resolves the name.
    hosts = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    infos = []
    for each in hosts if port else ():
        with suppress(OSError):  # reported when the address is bound
            infos += _address_infos(each, port)
    for family, kind, protocol, _, address in infos:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                at = "" if address[0] == host else f" ({address[0]})"
                raise CannotListen(_failure(host, port, error, at)) from None


def address_of(opened: socket.socket) -> str:
    """Return a socket's local address as text."""
    name = opened.getsockname()
    return f"unix:{name}" if isinstance(name, str) else _text(*name[:2])


_address_infos = partial(socket.getaddrinfo, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)


def _bind(host: str, port: int, *, shared: bool) -> socket.socket:
    """Bind a socket; unless it is shared, also listen. Raises CannotListen."""
    with ExitStack() as on_error:
        try:
            family, kind, protocol, _, address = _address_infos(host, port)[0]
            opened = on_error.enter_context(socket.socket(family, kind, protocol))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            opened.bind(address)
            if not shared:
                # If another server is listening on the port, binding succeeds but listening fails.
                opened.listen()
        except OSError as error:
            raise CannotListen(_failure(host, port, error)) from None
        on_error.pop_all()
    return opened


def _failure(host: str, port: int, error: OSError, at: str = "") -> str:
    remedy = f": {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
    return f"{_text(host, port)!r}: {error.strerror or error}{at}{remedy}"


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
