"""Opens bridges: resolves the server's name, connects, and starts TLS as configured."""

import asyncio
import os
import socket
import ssl
from typing import Final

from queuegate_server.identity.resolvers.ldap.ber import INTEGER, SEQUENCE, element
from queuegate_server.identity.resolvers.ldap.bridge import Bridge
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl, resolve_host
from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault
from queuegate_server.identity.resolvers.ldap.ldap_messages import EXTENDED_RESPONSE
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from queuegate_server.identity.resolvers.ldap.timed_steps import StepObserver, timed_step
from queuegate_server.runtime.threads import AbandonableThreadPool, StillRunning, ThreadsExhausted

_TCP_USER_TIMEOUT_MS: Final = 10_000
"""How long sent data may remain unacknowledged before the connection fails."""
_MESSAGE_ID: Final = b"\x01"
_EXTENDED_REQUEST: Final = 0x77
_REQUEST_NAME: Final = 0x80
_START_TLS: Final = b"1.3.6.1.4.1.1466.20037"
_START_TLS_REQUEST: Final = element(
    SEQUENCE,
    element(INTEGER, _MESSAGE_ID) + element(_EXTENDED_REQUEST, element(_REQUEST_NAME, _START_TLS)),
)
"""The first message of a connection that begins without TLS (RFC 4511, 4.12 and 4.14.1)."""


async def open_bridge(
    url: ServerUrl, options: LdapOptions, threads: AbandonableThreadPool, observe: StepObserver
) -> Bridge:
    """Connect to a server, with TLS as configured. Raises LdapFault.

    The caller must set a timeout. Cancellation leaves no connection open.
    """
    with timed_step("resolve", str(url), observe) as step:
        addresses = await resolve_host(url.host, url.port, threads)
        step.detail = ", ".join(addresses)
    bridge = Bridge(url)
    try:
        with timed_step("connect", str(url), observe) as step:
            step.detail = await _connect(bridge, addresses, options.connect_timeout)
        if url.encrypted or options.start_tls:
            context = await _tls_context(options, threads)
            if not url.encrypted:
                with timed_step("starttls", str(url), observe):
                    await _request_tls(bridge)
            with timed_step("tls", str(url), observe) as step:
                step.detail = await bridge.encrypt(context, options.tls_server_name or url.host)
    except BaseException:
        bridge.abort("abandoned")
        raise
    return bridge


async def _tls_context(options: LdapOptions, threads: AbandonableThreadPool) -> ssl.SSLContext:
    try:
        return await threads.run("tls", options.tls_context)
    except ValueError as error:
        raise ServerFault(str(error), "check ca_file, cert_file and key_file") from None
    except (StillRunning, ThreadsExhausted):
        raise ServerFault("reading the certificate files is stuck") from None


async def _connect(bridge: Bridge, addresses: tuple[str, ...], seconds: float) -> str:
    """Connect to the first address that responds; return the address.

    Each address has an equal share of the time, so that an address that never responds leaves time
    for the others.
    """
    fault = "it has no address"
    loop = asyncio.get_running_loop()
    share = seconds / max(1, len(addresses))
    for address in addresses:
        try:
            async with asyncio.timeout(share):
                transport, _ = await loop.create_connection(
                    lambda: bridge, address, bridge.url.port
                )
        except TimeoutError:
            fault = f"no answer from {address} within {share:.2g} s"
        except OSError as error:
            # Use the errno's text, because asyncio's message gives the address but not the reason.
            fault = f"{address}: {os.strerror(error.errno) if error.errno else error}"
        else:
            _set_options(transport.get_extra_info("socket"))
            return address
    raise ServerFault(
        f"cannot connect: {fault}", "check the host, the port and any firewalls in between"
    )


def _set_options(connection: socket.socket) -> None:
    """Send without delay, and detect a server that has disappeared."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS)


async def _request_tls(bridge: Bridge) -> None:
    try:
        reply = await bridge.request(_START_TLS_REQUEST, EXTENDED_RESPONSE)
    except ServerFault as fault:
        advice = fault.advice or "check whether the port is for ldap:// rather than ldaps://"
        raise ServerFault(fault.detail, advice) from None
    if reply.code != 0:
        raise ServerFault(
            f"the server refused StartTLS (code {reply.code}): {reply.text}",
            "use ldaps://, or configure TLS on the server",
        )
