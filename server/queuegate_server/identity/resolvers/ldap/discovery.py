"""Which servers a domain's DNS names (SRV records, RFC 2782)."""

import asyncio

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdatatype
import dns.rdtypes.IN.SRV

from queuegate_server.identity.resolvers.ldap.errors import ServerFault, SetupFault
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl


async def discovered(
    domain: str,
    *,
    encrypted: bool,
    seconds: float,
    resolver: "dns.asyncresolver.Resolver | None" = None,
) -> tuple[ServerUrl, ...]:
    """Return the servers that a domain's SRV records name, best first (RFC 2782).

    Raises SetupFault if it names none, and ServerFault if DNS cannot be asked.
    """
    scheme = "ldaps" if encrypted else "ldap"
    name = f"_{scheme}._tcp.{domain}"
    try:
        asker = resolver or dns.asyncresolver.Resolver()
        async with asyncio.timeout(seconds):
            answer = await asker.resolve(name, dns.rdatatype.SRV, lifetime=seconds)
    except (dns.exception.Timeout, TimeoutError):
        raise ServerFault(f"DNS did not name the servers of {name} within {seconds:g} s") from None
    except dns.exception.DNSException as error:
        raise SetupFault(
            f"DNS names no server at {name}: {type(error).__name__}",
            "check discover, or list the servers in urls",
        ) from None
    records = answer.rrset.processing_order() if answer.rrset else []
    servers = tuple(
        ServerUrl(scheme, record.target.to_text(omit_final_dot=True), record.port)
        for record in records
        # A single dot says that there is no such service.
        if isinstance(record, dns.rdtypes.IN.SRV.SRV) and record.target != dns.name.root
    )
    if not servers:
        raise SetupFault(f"DNS names no server at {name}", "check discover")
    return servers
