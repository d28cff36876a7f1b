"""Finds LDAP servers: parses URLs, resolves host names, and looks up SRV records."""

import asyncio
import contextlib
import ipaddress
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault, SetupFault
from queuegate_server.runtime.threads import (
    AbandonableThreadPool,
    StillRunning,
    ThreadsExhausted,
    look_up_host,
)

if TYPE_CHECKING:
    import dns.asyncresolver


_PORTS: Final = {"ldap": 389, "ldaps": 636}
_DOMAIN: Final = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")


class ServerUrl(NamedTuple):
    """The address of a directory server."""

    scheme: str
    """`ldap` or `ldaps`."""
    host: str
    port: int

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS from the start."""
        return self.scheme == "ldaps"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def is_domain(text: str) -> bool:
    """Return whether a string is a valid DNS name. The top-level domain is not checked."""
    return _DOMAIN.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Return whether a string is an IP address or a valid host name."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(text)
        return True
    try:
        # Check the IDNA-encoded name, because the system's resolver and TLS use that form.
        return is_domain(text.encode("idna").decode())
    except UnicodeError:
        return False


def parse_url(text: str) -> ServerUrl:
    """Parse an LDAP URL. Raises ValueError with a predicate as its message ("names no host")."""
    if not text.isprintable() or " " in text:
        raise ValueError("contains spaces or control characters")
    try:
        parts = urlsplit(text)
    except ValueError:  # the brackets do not contain an IPv6 address
        raise ValueError("has a host that is not an IPv6 address") from None
    if parts.scheme not in _PORTS:
        raise ValueError("must begin with ldap:// or ldaps://")
    if not parts.hostname:
        raise ValueError("names no host")
    if not is_host(parts.hostname):
        raise ValueError("has a host that is neither a name nor an address")
    if "@" in parts.netloc:
        raise ValueError("must not contain credentials: use bind_dn and bind_password_file")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("must consist of a host and a port only: use user_base for the base")
    try:
        port = parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise ValueError("has a port that is not between 1 and 65535") from None
    return ServerUrl(parts.scheme, parts.hostname, port)


async def resolve_host(host: str, port: int, threads: AbandonableThreadPool) -> tuple[str, ...]:
    """Return a host's IP addresses. Raises ServerFault."""
    try:
        return await look_up_host(threads, host, port)
    except OSError as error:
        raise ServerFault(
            f"the host name {host} cannot be resolved: {error.strerror}",
            "check the name in urls and the DNS of this machine",
        ) from None
    except (StillRunning, ThreadsExhausted):
        raise ServerFault(
            f"an earlier attempt to resolve {host} is still stuck",
            "check the DNS of this machine",
        ) from None


async def discover_servers(
    domain: str,
    *,
    encrypted: bool,
    timeout: float,  # noqa: ASYNC109 - passed to the library
    resolver: "dns.asyncresolver.Resolver | None" = None,
) -> tuple[ServerUrl, ...]:
    """Return the servers from a domain's SRV records (RFC 2782), in order of preference.

    Raises SetupFault if there are none, and ServerFault if DNS does not respond.
    """
    # Imported here because the import is slow and needed only for `discover`.
    from dns import asyncresolver, exception, name, rdatatype  # noqa: PLC0415
    from dns.rdtypes.IN.SRV import SRV  # noqa: PLC0415

    scheme = "ldaps" if encrypted else "ldap"
    service = f"_{scheme}._tcp.{domain}"
    try:
        resolver = resolver or asyncresolver.Resolver()
        async with asyncio.timeout(timeout):
            answer = await resolver.resolve(service, rdatatype.SRV, lifetime=timeout)
    except (exception.Timeout, TimeoutError):
        raise ServerFault(f"DNS did not answer for {service} within {timeout:g} s") from None
    except OSError as error:
        raise ServerFault(f"the DNS query for {service} failed: {error.strerror}") from None
    except exception.DNSException as error:
        raise SetupFault(
            f"DNS has no servers for {service}: {type(error).__name__}",
            "check discover, or list the servers in urls",
        ) from None
    records = answer.rrset.processing_order() if answer.rrset else []
    servers = tuple(
        ServerUrl(scheme, record.target.to_text(omit_final_dot=True), record.port)
        for record in records
        # A target of `.` (the root domain) means that the service is not available.
        if isinstance(record, SRV) and record.target != name.root
    )
    if not servers:
        raise SetupFault(f"DNS has no servers for {service}", "check discover")
    return servers
