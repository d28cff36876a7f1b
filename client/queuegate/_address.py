"""Server address parsing. Addresses are validated early, because gRPC accepts nearly any string and
fails only on first use.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from queuegate import _validation

DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
ENVIRONMENT_VARIABLE: Final = "QUEUEGATE_ADDRESS"

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")
MAX_PORT: Final = 65_535
MAX_SOCKET_PATH_BYTES: Final = 107
_DNS: Final = "dns:///"
"""The scheme that gRPC itself uses for a host and a port."""
_ACCEPTED: Final = "use HOST:PORT, [IPV6]:PORT or unix:/PATH"


@dataclass(frozen=True, slots=True)
class Address:
    """A validated server address."""

    text: str
    """The address as given, as messages show it."""
    target: str
    """The address as an unambiguous URI for gRPC."""
    is_unix: bool = False
    is_local: bool = False
    """Whether the server runs on this machine."""


def parse(address: object) -> Address:
    """Parse `HOST:PORT`, `[IPV6]:PORT`, `unix:/PATH` or `unix:///PATH`.

    `dns:///` may precede a host and a port, as in gRPC targets. A Unix socket path is taken
    literally, without percent-decoding. If `address` is None, the environment variable
    `QUEUEGATE_ADDRESS` is used, or the default address if that variable is unset or empty.

    Raises:
        TypeError: The address is not a str.
        ValueError: The address is invalid.
    """
    name = "address"
    if address is None:
        address = os.environ.get(ENVIRONMENT_VARIABLE)
        name = ENVIRONMENT_VARIABLE
        if not address:
            address = DEFAULT_ADDRESS
    text = _validation.text(name, address)
    try:
        if text.startswith("unix:"):
            return Address(text, _unix_target(text), is_unix=True, is_local=True)
        network = text.removeprefix(_DNS)
        return Address(text, _network_target(network), is_local=_is_loopback(network))
    except ValueError as error:
        raise ValueError(f"{name} {text!r}: {error}") from None


def _is_loopback(text: str) -> bool:
    host = text.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _unix_target(text: str) -> str:
    path = text.removeprefix("unix:").removeprefix("//")
    if not path.startswith("/"):
        raise ValueError(f"the path of a Unix socket must be absolute; {_ACCEPTED}")
    if len(path.encode()) > MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"the path of a Unix socket must not exceed {MAX_SOCKET_PATH_BYTES} bytes")
    if "\0" in path or "," in path:
        # gRPC splits addresses at commas, even if they are percent-encoded.
        raise ValueError("the path of a Unix socket must not contain a comma or NUL")
    return "unix:" + quote(path, safe="/")


def _network_target(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f"not a host and a port; {_ACCEPTED}")
    if not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT):
        raise ValueError(f"the port must be a number from 1 to {MAX_PORT}; {_ACCEPTED}")
    if host.startswith("[") and host.endswith("]"):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise ValueError(f"not an IPv6 address in the brackets; {_ACCEPTED}") from None
        host = quote(host, safe="[]:")
    elif not _HOST_NAME.fullmatch(host):
        raise ValueError(f"not a host name or IPv4 address before the port; {_ACCEPTED}")
    return f"dns:///{host}:{int(port)}"
