"""Detects a wrong TLS scheme in `fleet.url` after a connection has failed.

The mistake would otherwise appear only as a closed connection or a timeout. Probes send no
credentials and trust nothing that they receive.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any, Final

from queuegate_server.fleet.driver import addresses
from queuegate_server.runtime.threads import AbandonableThreadPool
from queuegate_server.settings.listeners import HostPort

PROBE_SECONDS: Final = 2.0
_PLAIN_REPLIES: Final = (b"+PONG", b"-NOAUTH", b"-DENIED", b"-LOADING", b"-MISCONF", b"-ERR")
_LOOKUPS: Final = AbandonableThreadPool(2, "fleet-probe")


async def transport_mistake(hosts: Sequence[HostPort], *, tls: bool) -> str:
    """Return an error message if `fleet.url` uses TLS but a host does not, or vice versa.

    Return an empty string if no such mistake is detected.
    """
    for host, port in hosts:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                is_mistake = await (_speaks_plainly if tls else _speaks_tls)(host, port)
        except (OSError, TimeoutError, ValueError):
            continue
        if is_mistake:
            speaks = "does not speak" if tls else "expects"
            schemes = "redis, not rediss" if tls else "rediss, not redis"
            return f"Redis at {host}:{port} {speaks} TLS: fleet.url must begin with {schemes}"
    return ""


async def _speaks_plainly(host: str, port: int) -> bool:
    reader, writer = await _connect(host, port)
    try:
        writer.write(b"PING\r\n")
        return (await reader.readline()).startswith(_PLAIN_REPLIES)
    finally:
        writer.transport.abort()


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # safe, because no data follows the handshake
    try:
        _, writer = await _connect(host, port, ssl=context, server_hostname=host)
    except ssl.SSLError as error:
        # A TLS alert also proves that the server uses TLS; it may require a client certificate.
        return "ALERT" in (error.reason or "")
    writer.transport.abort()
    return True


async def _connect(
    host: str, port: int, **tls: Any
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first reachable address. Raises OSError."""
    for address in await addresses(host, port, _LOOKUPS):
        try:
            return await asyncio.open_connection(address, port, limit=4096, **tls)
        except ssl.SSLError:
            raise
        except OSError:
            continue
    raise OSError(None, f"cannot connect to any address of {host}")
