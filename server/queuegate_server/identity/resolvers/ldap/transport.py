"""A connection that asyncio owns, with its other end in the hands of libldap.

libldap 2.5 has no set of options that bounds a TLS handshake. So TCP, StartTLS and TLS
are asyncio's, and libldap gets one end of a socket pair that never blocks.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final

from queuegate_server.identity.resolvers.ldap import messages
from queuegate_server.identity.resolvers.ldap.addresses import IpAddress, ip_addresses
from queuegate_server.identity.resolvers.ldap.bridge import Side
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.tls import TlsContexts
from queuegate_server.identity.resolvers.ldap.urls import ServerUrl
from queuegate_server.runtime.threads import AbandonableThreadPool

_BUFFER: Final = 1 << 20
_UNCONFIRMED_SECONDS: Final = 10
"""How long what was sent may go without TCP's acknowledgement."""


class Transport:
    """An open connection to a server, not yet bound. Used from one event loop."""

    def __init__(self, url: ServerUrl, server: Side, *, encrypted: bool) -> None:
        self.url = url
        self.encrypted = encrypted
        self._server = server

    async def ask(self, message: bytes) -> messages.Reply:
        """Send a message of ours and return the reply. Before `hand_over` only."""
        return messages.reply(await self._server.ask(message))

    async def hand_over(self) -> int:
        """Return a file descriptor that libldap may take and must close."""
        ours, theirs = socket.socketpair()
        try:
            for end in (ours, theirs):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
            _, local = await asyncio.get_running_loop().create_connection(Side, sock=ours)
            self._server.join(local)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        if self._server.lost is not None:
            theirs.close()
            raise ServerFault(self._server.lost)
        return theirs.detach()

    def when_lost(self, call: Callable[[str], None]) -> None:
        """Call a function with the reason when the connection has ended."""
        self._server.on_lost = call

    @property
    def lost(self) -> str | None:
        """Why the connection ended, if it did."""
        return self._server.lost

    def answer_is_complete(self) -> None:
        """Note that the bytes received so far have made an answer."""
        self._server.unread = 0

    def close(self, reason: str = "closed") -> None:
        """Drop the connection."""
        self._server.end(reason)


async def open_transport(
    url: ServerUrl,
    options: LdapOptions,
    contexts: TlsContexts,
    threads: AbandonableThreadPool,
    observe: Observer,
) -> Transport:
    """Connect to a server, with TLS as the options ask for. Raises LdapFault.

    The caller bounds the time; nothing is left over when it is cancelled.
    """
    with step("resolve", str(url), observe) as taken:
        found = await ip_addresses(url.host, url.port, threads)
        taken.detail = ", ".join(address.ip for address in found)
    side = Side()
    try:
        with step("connect", str(url), observe) as taken:
            taken.detail = await _connect(side, url, found, options.connect_timeout)
        encrypted = url.encrypted or options.start_tls
        if encrypted:
            context = await contexts.context()
            if not url.encrypted:
                with step("starttls", str(url), observe):
                    await _ask_for_tls(side)
            with step("tls", str(url), observe) as taken:
                taken.detail = await _encrypt(side, context, options.tls_server_name or url.host)
    except BaseException:
        side.end("given up")
        raise
    return Transport(url, side, encrypted=encrypted)


async def _connect(side: Side, url: ServerUrl, found: tuple[IpAddress, ...], seconds: float) -> str:
    """Connect to the first address that answers; return it."""
    fault = "it has no address"
    loop = asyncio.get_running_loop()
    for address in found:
        try:
            async with asyncio.timeout(seconds / len(found)):
                transport, _ = await loop.create_connection(
                    lambda: side, address.ip, url.port, family=address.family
                )
        except TimeoutError:
            fault = f"no answer from {address.ip} within {seconds / len(found):g} s"
        except OSError as error:
            # asyncio puts the address in the place of the reason.
            fault = f"{address.ip}: {os.strerror(error.errno) if error.errno else error}"
        else:
            _tune(transport.get_extra_info("socket"))
            return address.ip
    raise ServerFault(
        f"{url} cannot be reached: {fault}", "check host, port and firewalls on the way"
    )


def _tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNCONFIRMED_SECONDS * 1000
        )


async def _ask_for_tls(side: Side) -> None:
    try:
        reply = messages.reply(await side.ask(messages.start_tls()))
    except ServerFault as fault:
        advice = fault.advice or "check whether the port is one for ldap:// and not for ldaps://"
        raise ServerFault(fault.detail, advice) from None
    if reply.code != 0:
        raise ServerFault(
            f"the server refuses StartTLS (code {reply.code}): {reply.text}",
            "use ldaps://, or configure TLS on the server",
        )


async def _encrypt(side: Side, context: ssl.SSLContext, name: str) -> str:
    """Do the TLS handshake; return protocol and cipher, or raise the clear reason."""
    plain = side.transport
    if plain is None or side.lost is not None:
        raise ServerFault(side.lost or "there is no connection")
    side.nothing_more_came()
    try:
        transport = await asyncio.get_running_loop().start_tls(
            plain, side, context, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raise ServerFault(
            f"the server's certificate is not good: {error.verify_message}",
            "check ca_file, the names in the certificate and its dates",
        ) from None
    except ssl.SSLError as error:
        raise ServerFault(
            f"the TLS handshake failed: {error.reason or error}",
            "check tls_min_version, cert_file, and whether the port speaks TLS",
        ) from None
    except OSError:
        raise ServerFault(
            "the connection broke in the TLS handshake", "check whether the port speaks TLS"
        ) from None
    if transport is None:
        raise ServerFault("the connection broke in the TLS handshake")
    side.transport = transport
    tls = transport.get_extra_info("ssl_object")
    try:
        return f"{tls.version()}, {tls.cipher()[0]}"
    except (AttributeError, TypeError) as error:
        raise LdapFault("the connection is not encrypted") from error
