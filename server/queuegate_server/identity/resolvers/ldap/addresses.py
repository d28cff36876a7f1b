"""Host names to IP addresses, without holding up the event loop."""

import ipaddress
import socket
from typing import NamedTuple

from queuegate_server.identity.resolvers.ldap.errors import ServerFault
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning


class IpAddress(NamedTuple):
    """Where to connect to."""

    family: socket.AddressFamily
    ip: str


async def ip_addresses(
    host: str, port: int, threads: AbandonableThreadPool
) -> tuple[IpAddress, ...]:
    """Return the addresses of a host. Raises ServerFault.

    The system's resolver blocks: it gets a thread that nobody waits for at the end.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        is_ipv4 = isinstance(address, ipaddress.IPv4Address)
        return (IpAddress(socket.AF_INET if is_ipv4 else socket.AF_INET6, host),)
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
    return tuple(dict.fromkeys(IpAddress(entry[0], str(entry[4][0])) for entry in found))
