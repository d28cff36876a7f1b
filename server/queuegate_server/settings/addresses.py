"""Addresses to listen on, as texts: what is accepted, and what is said of the rest.

gRPC takes nearly any text as an address and reports a malformed one as a
RuntimeError and a line on stderr, so they are checked before it sees them. Imports
nothing slow: the command line needs it.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_LONGEST_SOCKET_PATH: Final = 107
_HIGHEST_PORT: Final = 65_535
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,252}[A-Za-z0-9])?")


class MalformedAddress(ValueError):
    """The text is no address; the message says what to write."""


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


class HostPort(NamedTuple):
    """A TCP address. Port 0 lets the system choose."""

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[ipv6]:port`, `unix:/path` or `unix:///path`; port 0 lets the
    system choose.

    Raises MalformedAddress.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if path.startswith("//"):
            path = path.removeprefix("//")
        if not path.startswith("/"):
            raise MalformedAddress(
                f"{text!r}: a Unix socket needs an absolute path: unix:/run/x.sock"
            )
        if len(os.fsencode(path)) > _LONGEST_SOCKET_PATH:
            raise MalformedAddress(
                f"{text!r}: the path of a Unix socket is at most {_LONGEST_SOCKET_PATH} bytes"
            )
        if "," in path or "\0" in path:
            # gRPC takes a comma, also an encoded one, for the end of a first address.
            raise MalformedAddress(f"{text!r}: the path of a Unix socket has no comma and no NUL")
        return Address(text, path=path)
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise MalformedAddress(f"{text!r}: use host:port, [ipv6]:port or unix:/path")
    if not _is_port(port_text):
        raise MalformedAddress(f"{text!r}: the port must be a number from 0 to {_HIGHEST_PORT}")
    return Address(text, host=host[1:-1] if bracketed else host, port=int(port_text))


def parse_host_port(text: str) -> HostPort:
    """Parse `host:port` or `[ipv6]:port`, for what is not gRPC. Raises MalformedAddress."""
    host, colon, port = text.rpartition(":")
    if not colon or not _is_host(host):
        raise MalformedAddress("not an address: write host:port or [ipv6]:port")
    if not _is_port(port):
        raise MalformedAddress(f"the port must be a number from 0 to {_HIGHEST_PORT}")
    return HostPort(host.removeprefix("[").removesuffix("]"), int(port))


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and int(text) <= _HIGHEST_PORT


def _is_host(text: str) -> bool:
    if not (text.startswith("[") and text.endswith("]")):
        return bool(_HOST.fullmatch(text))
    try:
        ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        return False
    return True
