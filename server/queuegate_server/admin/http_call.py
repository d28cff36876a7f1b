"""Gives an HTTP request the interface of a gRPC call, so that its caller can be identified."""

import ipaddress
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aiohttp import web

_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z.-]+))(?::[0-9]*)?", re.ASCII
)
"""A host name or address, with an optional port."""


@dataclass(slots=True, eq=False)
class HttpCall:
    """An adapter that gives an HTTP request the interface of a gRPC call."""

    request: web.BaseRequest
    token: str | None = field(repr=False)
    """A session's token, if any."""
    local_port: bool
    """Whether the port is on loopback."""

    @property
    def has_authorization(self) -> bool:
        """Whether the request's headers contain credentials."""
        return "Authorization" in self.request.headers

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Return the authorization headers, or the session's token if there are none."""
        values = self.request.headers.getall("Authorization", [])
        if not values and self.token is not None:
            values = [f"Bearer {self.token}"]
        return [("authorization", value) for value in values]

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the verified client certificate and its subject; empty if there is none."""
        transport = self.request.transport
        connection = transport and transport.get_extra_info("ssl_object")
        der = connection and connection.getpeercert(binary_form=True)
        if not der:
            return {}
        return {
            "x509_pem_cert": [ssl.DER_cert_to_PEM_cert(der).encode()],
            "x509_subject": [_subject(der)],
        }

    @property
    def is_forwarded(self) -> bool:
        """Whether a proxy has forwarded the request, and so added a header."""
        headers = self.request.headers
        return (
            "X-Forwarded-For" in headers
            or "Forwarded" in headers
            or "X-Real-IP" in headers
            or "Via" in headers
        )

    def peer(self) -> str:
        """Return the peer's address in gRPC's format; empty if the request's origin is unknown.

        The origin is known only on a loopback port, and only if no proxy forwarded the request.
        """
        if not self.local_port or self.is_forwarded:
            return ""
        address = self.address
        return f"ipv6:[{address}]:" if ":" in address else f"ipv4:{address}:"

    @property
    def address(self) -> str:
        """The peer's IP address."""
        transport = self.request.transport
        name = transport and transport.get_extra_info("peername")
        return str(name[0]) if name else ""


def is_loopback_host(request: web.BaseRequest) -> bool:
    """Return whether the requested host is loopback. Any other host may indicate DNS rebinding."""
    hosts = request.headers.getall("Host", [""])
    if not request.raw_path.startswith("/"):
        hosts = [*hosts, request.raw_path.partition("://")[2].partition("/")[0]]
    return all(map(_is_loopback, hosts))


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    parts = _HOST.fullmatch(host)
    if parts is None:
        return False
    name = (parts["ipv6"] or parts["name"].removesuffix(".")).lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _subject(der: bytes) -> bytes:
    """Return a certificate's subject in RFC 2253 format, as OpenSSL prints it."""
    from cryptography import x509  # noqa: PLC0415 - takes 40 ms, and most callers have none

    subject = x509.load_der_x509_certificate(der).subject
    text = subject.rfc4514_string({x509.NameOID.EMAIL_ADDRESS: "emailAddress"})
    return "".join(
        char if char.isascii() else "".join(f"\\{byte:02X}" for byte in char.encode())
        for char in text
    ).encode()
