"""Settings for the addresses to listen on, and for the protection of each.

Addresses are validated here because gRPC accepts nearly any string and reports a malformed address
only as a RuntimeError and a line on stderr.
"""

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from queuegate_server.config_fields import Section, check_with

MAX_SOCKET_PATH_BYTES: Final = 107
MAX_PORT: Final = 65_535
DEFAULT_PORT: Final = 50_051
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,252}[A-Za-z0-9])?")
_OCTAL: Final = re.compile(r"(?:0o?)?[0-7]{3}")
_MAX_MODE: Final = 0o777


class MalformedAddress(ValueError):
    """Raised for text that is not an address. The message explains the syntax."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """A valid address: the path of a Unix socket, or a host and port."""

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

    @property
    def is_wildcard(self) -> bool:
        """Whether this is a wildcard address, which listens on all interfaces."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound

    def at_port(self, port: int) -> str:
        """Return the address as text, with the given port."""
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


class HostPort(NamedTuple):
    """A TCP address. Port 0 lets the system choose a port."""

    host: str
    port: int


def parse_address(text: str) -> ListenAddress:
    """Parse `host:port`, `[ipv6]:port`, `unix:/path` or `unix:///path`. Port 0 lets the system
    choose a port. Raises MalformedAddress.
    """
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise MalformedAddress("a Unix socket needs an absolute path: unix:/run/x.sock")
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            raise MalformedAddress(
                f"the path of a Unix socket is longer than {MAX_SOCKET_PATH_BYTES} bytes"
            )
        if "," in path or "\0" in path:
            # gRPC truncates the address at a comma, even an encoded one.
            raise MalformedAddress("the path of a Unix socket must not contain a comma or NUL")
        return ListenAddress(text, path=path)
    host, _, port = text.rpartition(":")
    if not host and _is_port(port):
        raise MalformedAddress(f"the host is missing: write 127.0.0.1:{port}")
    if _is_host(text):
        raise MalformedAddress(f"the port is missing: write {text}:{DEFAULT_PORT}")
    place = _parse_host_port(text, "host:port, [ipv6]:port or unix:/path")
    return ListenAddress(text, host=place.host, port=place.port)


def parse_host_port(text: str) -> HostPort:
    """Parse an HTTP port's address, `host:port` or `[ipv6]:port`. Raises MalformedAddress."""
    return _parse_host_port(text, "host:port or [ipv6]:port")


def _parse_host_port(text: str, forms: str) -> HostPort:
    """Parse a TCP address; the message of MalformedAddress lists the accepted forms."""
    host, _, port = text.rpartition(":")
    if not _is_host(host):
        raise MalformedAddress(f"not an address: write {forms}")
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


def file_mode(value: object) -> object:
    """Parse an octal file mode."""
    if isinstance(value, str):
        if not _OCTAL.fullmatch(value):
            raise ValueError("not a file mode: write it in octal, such as 0660")
        return int(value.removeprefix("0o"), 8)
    return value


FileMode = Annotated[int, BeforeValidator(file_mode), Field(ge=0, le=_MAX_MODE)]


def file_path(value: object) -> object:
    """Raise ValueError if text cannot be a path."""
    if isinstance(value, str) and (not value or "\0" in value):
        raise ValueError("must be a file path")
    return value


FilePath = Annotated[Path, BeforeValidator(file_path)]


def _account(value: object) -> object:
    """Convert a numeric ID to text, because YAML parses it as a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Account = Annotated[str, BeforeValidator(_account), Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")]


class ListenerTls(Section):
    """A listener's certificate, in PEM format. The files are reloaded when they change."""

    certificate_file: FilePath
    """The server's certificate and chain."""
    key_file: FilePath
    """The certificate's private key, without a passphrase."""
    client_ca_file: FilePath | None = None
    """The certificate authorities for callers. If set, every caller must present a certificate
    (mTLS)."""


class Listener(Section):
    """An address to serve on. In the file, a plain address may replace the section."""

    address: Annotated[str, check_with(parse_address)]
    """host:port, [ipv6]:port or unix:/path."""
    tls: ListenerTls | None = None
    """For TCP: serve with TLS 1.2 or newer."""
    insecure: bool = False
    """Allow plaintext on an address that is not loopback."""
    mode: FileMode | None = None
    """For a Unix socket: its file mode. Default: 0660, for its owner and group."""
    owner: Account | None = None
    """For a Unix socket: its owner, by name or number."""
    group: Account | None = None
    """For a Unix socket: its group, by name or number."""

    @property
    def parsed(self) -> ListenAddress:
        """The parsed address."""
        return parse_address(self.address)

    @property
    def is_open(self) -> bool:
        """Whether other machines can connect in plaintext."""
        return not self.tls and not self.parsed.is_local

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.parsed.path:
            if self.tls or self.insecure:
                raise ValueError("tls and insecure do not apply to a Unix socket: use its mode")
        elif not (self.mode is None and self.owner is None and self.group is None):
            raise ValueError("mode, owner and group apply to a Unix socket, not to a port")
        if self.tls and self.insecure:
            raise ValueError("set either tls or insecure, not both")
        if self.is_open and not self.insecure:
            raise ValueError(
                f"{self.address} can be reached from other machines: set tls (certificate_file,"
                " key_file), or allow plaintext with insecure: true"
            )
        return self


def _listener(value: object) -> object:
    return {"address": value} if isinstance(value, str) else value


def _listeners(value: object) -> object:
    """Split a comma-separated list, as given in an environment variable."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return [value] if isinstance(value, dict) else value


def _unique(listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    addresses = [listener.address for listener in listeners]
    for position, address in enumerate(addresses):
        if address in addresses[:position] and not address.endswith(":0"):
            raise ValueError(f"the address {address} is listed twice")
    return listeners


ListenerList = Annotated[
    tuple[Annotated[Listener, BeforeValidator(_listener)], ...],
    BeforeValidator(_listeners),
    AfterValidator(_unique),
    Field(min_length=1),
]
DEFAULT_LISTENERS: Final = (Listener(address=f"127.0.0.1:{DEFAULT_PORT}"),)
