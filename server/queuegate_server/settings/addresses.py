"""Parsing of addresses to listen on.

gRPC accepts nearly any text as an address and reports a malformed one as a RuntimeError and a
line on stderr, so addresses are checked before gRPC sees them. The command line imports this
module, so it imports nothing slow.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_SOCKET_PATH_BYTES: Final = 107
MAX_PORT: Final = 65_535
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,252}[A-Za-z0-9])?")


class MalformedAddress(ValueError):
    """The text is not an address; the message explains what to write."""


@dataclass(frozen=True, slots=True)
class Address:
    """A valid address: either the path of a Unix socket, or host and port."""

    text: str
    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
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
        path = text.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise MalformedAddress(
                f"{text!r}: a Unix socket needs an absolute path: unix:/run/x.sock"
            )
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise MalformedAddress(
                f"{text!r}: the path of a Unix socket is longer than {MAX_SOCKET_PATH_BYTES} bytes"
            )
        if "," in path or "\0" in path:
            # gRPC ends the address at a comma, even at an encoded one.
            raise MalformedAddress(
                f"{text!r}: the path of a Unix socket must not contain a comma or NUL"
            )
        return Address(text, path=path)
    host, colon, port_text = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise MalformedAddress(f"{text!r}: use host:port, [ipv6]:port or unix:/path")
    if not _is_port(port_text):
        raise MalformedAddress(f"{text!r}: the port must be a number from 0 to {MAX_PORT}")
    return Address(text, host=host[1:-1] if bracketed else host, port=int(port_text))


def parse_host_port(text: str) -> HostPort:
    """Parse `host:port` or `[ipv6]:port` of an HTTP port. Raises MalformedAddress."""
    host, colon, port = text.rpartition(":")
    if not colon or not _is_host(host):
        raise MalformedAddress("not an address: write host:port or [ipv6]:port")
    if not _is_port(port):
        raise MalformedAddress(f"the port must be a number from 0 to {MAX_PORT}")
    return HostPort(host.removeprefix("[").removesuffix("]"), int(port))


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and int(text) <= MAX_PORT


def _is_host(text: str) -> bool:
    if not (text.startswith("[") and text.endswith("]")):
        return bool(_HOST.fullmatch(text))
    try:
        ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        return False
    return True
