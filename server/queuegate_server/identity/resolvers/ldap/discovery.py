"""DNS: the IP addresses of a host, and the servers of a domain (SRV records, RFC 2782)."""

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

from queuegate_server.identity.resolvers.ldap.errors import ServerFault, SetupFault
from queuegate_server.identity.resolvers.ldap.options import ServerUrl
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning

if TYPE_CHECKING:
    import dns.asyncresolver


async def resolve_host(host: str, port: int, threads: AbandonableThreadPool) -> tuple[str, ...]:
    """Return the IP addresses of a host. Raises ServerFault.

    The system's resolver blocks, so it runs in a thread that may be abandoned.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return (host,)
    try:
        found = await threads.run(
            host, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except OSError as error:
        raise ServerFault(
            f"the host name {host} cannot be resolved: {error.strerror}",
            "check the name in urls and the DNS of this machine",
        ) from None
    except (StillRunning, AllThreadsHang):
        raise ServerFault(
            f"an earlier attempt to resolve {host} still hangs", "check the DNS of this machine"
        ) from None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def discover_servers(
    domain: str,
    *,
    encrypted: bool,
    timeout: float,  # noqa: ASYNC109 - the library is given it, too
    resolver: "dns.asyncresolver.Resolver | None" = None,
) -> tuple[ServerUrl, ...]:
    """Return the servers that a domain's SRV records name, the best first.

    Raises:
        SetupFault: DNS names no server.
        ServerFault: DNS does not answer.
    """
    # Imported here because it takes time and only `discover` needs it.
    import dns.asyncresolver  # noqa: PLC0415
    import dns.exception  # noqa: PLC0415
    import dns.name  # noqa: PLC0415
    import dns.rdatatype  # noqa: PLC0415
    import dns.rdtypes.IN.SRV  # noqa: PLC0415

    scheme = "ldaps" if encrypted else "ldap"
    name = f"_{scheme}._tcp.{domain}"
    try:
        resolver = resolver or dns.asyncresolver.Resolver()
        async with asyncio.timeout(timeout):
            answer = await resolver.resolve(name, dns.rdatatype.SRV, lifetime=timeout)
    except (dns.exception.Timeout, TimeoutError):
        raise ServerFault(f"DNS did not answer for {name} within {timeout:g} s") from None
    except dns.exception.DNSException as error:
        raise SetupFault(
            f"DNS names no server at {name}: {type(error).__name__}",
            "check discover, or list the servers in urls",
        ) from None
    records = answer.rrset.processing_order() if answer.rrset else []
    servers = tuple(
        ServerUrl(scheme, record.target.to_text(omit_final_dot=True), record.port)
        for record in records
        # The root as target: there is no such service.
        if isinstance(record, dns.rdtypes.IN.SRV.SRV) and record.target != dns.name.root
    )
    if not servers:
        raise SetupFault(f"DNS names no server at {name}", "check discover")
    return servers
