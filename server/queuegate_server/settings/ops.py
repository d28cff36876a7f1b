"""Settings of the operations port."""

import ipaddress
import re
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from queuegate_server.settings.section import Section

_HOST: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,252}[A-Za-z0-9])?")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HIGHEST_PORT: Final = 65_535


class HostPort(NamedTuple):
    """A TCP address. Port 0 lets the system choose."""

    host: str
    port: int


def host_port(text: str) -> HostPort:
    """Split `host:port` or `[ipv6]:port`. Raises PydanticCustomError."""
    host, colon, port = text.rpartition(":")
    if not colon or not _is_host(host):
        raise PydanticCustomError("address", "not an address: write host:port or [ipv6]:port")
    if not _PORT.fullmatch(port) or int(port) > _HIGHEST_PORT:
        raise PydanticCustomError(
            "address", "the port must be a number from 0 to {most}", {"most": _HIGHEST_PORT}
        )
    return HostPort(host.removeprefix("[").removesuffix("]"), int(port))


def _is_host(text: str) -> bool:
    if not (text.startswith("[") and text.endswith("]")):
        return bool(_HOST.fullmatch(text))
    try:
        ipaddress.IPv6Address(text[1:-1])
    except ValueError:
        return False
    return True


def _checked(text: str) -> str:
    host_port(text)
    return text


class Ops(Section):
    """The port for probes and Prometheus."""

    listen: Annotated[str, AfterValidator(_checked)] | None = Field(
        None, description="host:port or [ipv6]:port. Without it there is no such port."
    )
