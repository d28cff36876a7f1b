"""The callers of the console: the credentials of an HTTP request in the form of a call's.

So the authenticator of gRPC identifies them, by the same settings.
"""

import ipaddress
import ssl
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

_FORWARDED: Final = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")
"""Headers of proxies."""


class HttpCall:
    """A request as a call."""

    def __init__(self, request: web.Request, token: str | None, *, local_port: bool) -> None:
        """Show the caller of a request.

        Args:
            request: The request.
            token: The token of the session; None without one.
            local_port: Whether the port is on loopback.
        """
        self._request = request
        self._token = token
        self._local_port = local_port

    @property
    def has_authorization(self) -> bool:
        """Whether the request itself carries a credential in its headers."""
        return "Authorization" in self._request.headers

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Return the authorization headers, and else that of the session."""
        given = self._request.headers.getall("Authorization", [])
        if not given and self._token is not None:
            given = [f"Bearer {self._token}"]
        return [("authorization", value) for value in given]

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the certificate that TLS has verified."""
        transport = self._request.transport
        connection = transport and transport.get_extra_info("ssl_object")
        der = connection and connection.getpeercert(binary_form=True)
        if not der:
            return {}
        return {
            "x509_pem_cert": [ssl.DER_cert_to_PEM_cert(der).encode()],
            "x509_subject": [_subject(der)],
        }

    def peer(self) -> str:
        """Return the peer's address if the port and the peer are on loopback, else nothing.

        A request that a proxy has passed on is not the proxy's own.
        """
        if not self._local_port or any(name in self._request.headers for name in _FORWARDED):
            return ""
        address = self.address
        return f"ipv6:[{address}]:" if ":" in address else f"ipv4:{address}:"

    @property
    def address(self) -> str:
        """The IP address of the peer."""
        transport = self._request.transport
        name = transport and transport.get_extra_info("peername")
        return str(name[0]) if name else ""


def is_loopback_host(request: web.Request) -> bool:
    """Return whether a request names this machine: other names may be rebound by their owner."""
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_embedded_elsewhere(request: web.Request) -> bool:
    """Return whether a page of another site loads this one other than by a link.

    Callers who are known by their address or certificate would pay for it, without seeing it.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    is_link = (
        request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    return site not in {"same-origin", "none"} and not is_link


def is_own_origin(request: web.Request) -> bool:
    """Return whether a request that changes something comes from a page of the console."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        # Beside it, `Origin` is `null`: pages of the console send no referrer.
        return site == "same-origin"
    origin = request.headers.get("Origin")
    if origin is None:
        return True  # a program; the form's token is checked, too
    try:
        return urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()
    except ValueError:
        return False


def _subject(der: bytes) -> bytes:
    """Return the subject of a certificate as OpenSSL writes it by RFC 2253."""
    from cryptography import x509  # noqa: PLC0415 - it takes 40 ms, and most callers have none

    subject = x509.load_der_x509_certificate(der).subject
    text = subject.rfc4514_string({x509.NameOID.EMAIL_ADDRESS: "emailAddress"})
    return "".join(
        char if char.isascii() else "".join(f"\\{byte:02X}" for byte in char.encode())
        for char in text
    ).encode()
