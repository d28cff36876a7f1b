"""Finds out whether Redis speaks TLS, when a connection fails and `fleet.url` may say the opposite.

Such a mistake shows itself only as a connection that is closed, or as silence. The probes send no
credentials, and trust nothing that they receive.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from functools import partial
from typing import Final

from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning
from queuegate_server.settings.listeners import HostPort

PROBE_SECONDS: Final = 2.0
_PLAIN_REPLIES: Final = (b"+PONG", b"-NOAUTH", b"-DENIED", b"-LOADING", b"-MISCONF", b"-ERR")
_LOOKUPS: Final = AbandonableThreadPool(2, "fleet-probe")
"""For names, whose lookups may hang: the threads of asyncio are for files."""


async def transport_mistake(hosts: Sequence[HostPort], *, tls: bool) -> str:
    """Return a sentence if one of some hosts speaks TLS and `fleet.url` says that it does not, or
    the other way round; empty if no such mistake is known.

    Args:
        hosts: Redis, sentinels or nodes of a cluster.
        tls: Whether `fleet.url` says that they speak TLS.
    """
    for host, port in hosts:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                is_mistake = await (_speaks_plainly if tls else _speaks_tls)(host, port)
        except (OSError, TimeoutError, ValueError, StillRunning, AllThreadsHang):
            continue
        if is_mistake:
            speaks = "does not speak" if tls else "expects"
            schemes = "redis, not rediss" if tls else "rediss, not redis"
            return f"Redis at {host}:{port} {speaks} TLS: fleet.url must begin with {schemes}"
    return ""


async def _speaks_plainly(host: str, port: int) -> bool:
    connected = await _connect(host, port)
    reader, writer = await asyncio.open_connection(sock=connected, limit=4096)
    try:
        writer.write(b"PING\r\n")
        return (await reader.readline()).startswith(_PLAIN_REPLIES)
    finally:
        writer.transport.abort()


async def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent after the handshake
    connected = await _connect(host, port)
    try:
        _, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=host)
    except ssl.SSLError as error:
        # An alert is TLS, too: the server may require a certificate.
        return "ALERT" in (error.reason or "")
    with contextlib.suppress(OSError):
        writer.transport.abort()
    return True


async def _connect(host: str, port: int) -> socket.socket:
    """Return a socket that is connected to the first address that answers. Raises OSError."""
    lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in await _LOOKUPS.run(host, lookup):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            connected = stack.enter_context(socket.socket(family, kind, protocol))
            connected.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connected, address)
            stack.pop_all()
            return connected
    raise OSError(None, f"cannot connect to any address of {host}")
