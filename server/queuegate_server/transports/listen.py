"""Addresses to listen on, checked before gRPC sees them.

gRPC takes nearly any text as an address and reports a malformed one as a
RuntimeError and a line on stderr; it also takes over the Unix socket of a server
that is still running.
"""

import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

_LONGEST_SOCKET_PATH: Final = 107
_HIGHEST_PORT: Final = 65_535


class CannotListen(Exception):
    """An address is malformed or taken; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A checked address: either `path` of a Unix socket, or host and port."""

    text: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the address."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def at_port(self, port: int) -> str:
        """Return the address as text, with the port that was bound."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


class _Binds(Protocol):
    def add_insecure_port(self, address: str) -> int: ...


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[ipv6]:port`, `unix:/path` or `unix:///path`; port 0 lets the
    system choose.

    Raises CannotListen.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if path.startswith("//"):
            path = path.removeprefix("//")
        if not path.startswith("/"):
            raise CannotListen(f"{text!r}: a Unix socket needs an absolute path: unix:/run/x.sock")
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            raise CannotListen(
                f"{text!r}: the path of a Unix socket is at most {_LONGEST_SOCKET_PATH} bytes"
            )
        if "," in path or "\0" in path:
            # gRPC takes a comma, also an encoded one, for the end of a first address.
            raise CannotListen(f"{text!r}: the path of a Unix socket has no comma and no NUL")
        return Address(text, path=path)
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise CannotListen(f"{text!r}: use host:port, [ipv6]:port or unix:/path")
    if not (port_text.isascii() and port_text.isdigit() and int(port_text) <= _HIGHEST_PORT):
        raise CannotListen(f"{text!r}: the port must be a number from 0 to {_HIGHEST_PORT}")
    return Address(text, host=host[1:-1] if bracketed else host, port=int(port_text))


def bind(server: _Binds, address: Address, socket_mode: int) -> str:
    """Bind a gRPC server to an address and return it as text, with the port in use.

    A Unix socket gets `socket_mode` before anybody can connect. Raises CannotListen
    if the address is taken or not ours.
    """
    if address.path:
        _check_socket_path(address)
    try:
        with _umask(0o777 & ~socket_mode):
            port = server.add_insecure_port(_for_grpc(address))
    except RuntimeError:
        raise CannotListen(_why_not(address)) from None
    if address.path:
        Path(address.path).chmod(socket_mode)
    return address.at_port(port)


def _for_grpc(address: Address) -> str:
    # gRPC decodes the path of a Unix socket; ours is meant literally.
    return f"unix:{quote(address.path)}" if address.path else address.at_port(address.port)


def _check_socket_path(address: Address) -> None:
    path = Path(address.path)
    if not path.parent.is_dir():
        raise CannotListen(f"{address.text!r}: the folder {str(path.parent)!r} does not exist")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(f"{address.text!r}: {address.path!r} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise CannotListen(f"{address.text!r}: {error.strerror or error}") from None
    raise CannotListen(f"{address.text!r}: another server is listening on this socket")


def _why_not(address: Address) -> str:
    """Find the reason by trying the same with a plain socket: gRPC only logs it."""
    if address.path:
        return f"{address.text!r}: cannot create the socket; check the rights on its folder"
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except OSError as error:
        return f"{address.text!r}: {error.strerror or error}"
    return f"{address.text!r}: cannot be bound"


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
