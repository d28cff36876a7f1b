"""Adapts HTTP requests to the gRPC authenticator, which applies the settings for callers."""

import ipaddress
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from queuegate_server.rpc.authentication import Authenticator
from queuegate_server.rpc.errors import PermissionDenied, Unauthenticated

_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
"""Headers added by proxies."""
_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z.-]+))(?::[0-9]*)?", re.ASCII
)
"""A host name or address, with an optional port."""


@dataclass(frozen=True, slots=True, eq=False)
class HttpCall:
    """An adapter that gives an HTTP request the interface of a gRPC call."""

    request: web.Request
    token: str | None = field(repr=False)
    """The session's token, if any."""
    local_port: bool
    """Whether the operations port is on loopback."""

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

    def peer(self) -> str:
        """Return the peer's address in gRPC's format; empty if the request's origin is unknown.

        The origin is known only on a loopback port, and only if no proxy forwarded the request.
        """
        if not self.local_port or any(name in self.request.headers for name in _FORWARDED):
            return ""
        address = self.address
        return f"ipv6:[{address}]:" if ":" in address else f"ipv4:{address}:"

    @property
    def address(self) -> str:
        """The peer's IP address."""
        transport = self.request.transport
        name = transport and transport.get_extra_info("peername")
        return str(name[0]) if name else ""


def identifies_itself(request: web.Request, authenticator: Authenticator) -> bool:
    """Return whether a token in the headers identifies the caller.

    A page of another site cannot make the browser send such a header.
    """
    if "Authorization" not in request.headers:
        return False
    try:
        return authenticator.identify(HttpCall(request, None, local_port=False)).has_token
    except (Unauthenticated, PermissionDenied):
        return False


def is_loopback_host(request: web.Request) -> bool:
    """Return whether the requested host is loopback. Any other host may indicate DNS rebinding."""
    hosts = request.headers.getall("Host", [""])
    if not request.raw_path.startswith("/"):
        hosts = [*hosts, request.raw_path.partition("://")[2].partition("/")[0]]
    return all(map(_is_loopback, hosts))


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


def is_embedded_elsewhere(request: web.Request) -> bool:
    """Return whether another site's page loads this page by any means other than a link.

    If the caller is identified by address or certificate, such loads would use up the caller's rate
    limit.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = (
        request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    return site not in {"same-origin", "none"} and not is_link


def is_own_origin(request: web.Request) -> bool:
    """Return whether a state-changing request was sent by a console page."""
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if sites:
        # Ignore `Origin`, which is `null` because console pages send no referrer.
        return sites == ["same-origin"]
    origins = request.headers.getall("Origin", [])
    if not origins:
        return True  # not a browser; the form's CSRF token is also checked
    own = f"{request.scheme}://{request.headers.get('Host', '')}".lower()
    return [each.lower() for each in origins] == [own]


def _subject(der: bytes) -> bytes:
    """Return a certificate's subject in RFC 2253 format, as OpenSSL prints it."""
    from cryptography import x509  # noqa: PLC0415 - takes 40 ms, and most callers have none

    subject = x509.load_der_x509_certificate(der).subject
    text = subject.rfc4514_string({x509.NameOID.EMAIL_ADDRESS: "emailAddress"})
    return "".join(
        char if char.isascii() else "".join(f"\\{byte:02X}" for byte in char.encode())
        for char in text
    ).encode()
