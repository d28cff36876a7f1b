"""Addresses of directory servers."""

from typing import NamedTuple
from urllib.parse import urlsplit

_PORTS = {"ldap": 389, "ldaps": 636}


class ServerUrl(NamedTuple):
    """Where a server listens."""

    scheme: str
    """`ldap` or `ldaps`."""
    host: str
    port: int

    @property
    def encrypted(self) -> bool:
        """True if TLS comes first."""
        return self.scheme == "ldaps"

    def __str__(self) -> str:
        """Return the address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_url(text: str) -> ServerUrl:
    """Return the address that a URL names. Raises ValueError, which says what is wrong."""
    if not text.isprintable() or " " in text:
        raise ValueError("holds spaces or control characters")
    parts = urlsplit(text)
    if parts.scheme not in _PORTS:
        raise ValueError("must begin with ldap:// or ldaps://")
    if not parts.hostname:
        raise ValueError("names no host")
    if "@" in parts.netloc:
        raise ValueError("must hold no credentials: use bind_dn and bind_password_file")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must hold host and port only: use user_base for the base")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise ValueError("has a port that is not between 1 and 65535") from None
    return ServerUrl(parts.scheme, parts.hostname, port)
