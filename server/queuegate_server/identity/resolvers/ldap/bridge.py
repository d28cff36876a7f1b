"""A connection that asyncio owns, with its other end in the hands of libldap.

libldap 2.5 has no options that bound a TLS handshake. So asyncio does TCP, StartTLS and TLS, and
libldap gets one end of a socket pair that never blocks. The bridge carries the bytes; each end
stops reading while the other cannot send.
"""

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Final, cast

from queuegate_server.identity.resolvers.ldap import messages
from queuegate_server.identity.resolvers.ldap.discovery import IpAddress, resolve_host
from queuegate_server.identity.resolvers.ldap.errors import LdapFault, ServerFault
from queuegate_server.identity.resolvers.ldap.instrumentation import StepObserver, timed_step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions, ServerUrl
from queuegate_server.identity.resolvers.ldap.tls import TlsContexts
from queuegate_server.runtime.threads import AbandonableThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_UNREAD_BYTES: Final = 64 * 2**20
"""What a server may send without completing an answer."""
_SEND_BUFFER_BYTES: Final = 1 << 20
_TCP_USER_TIMEOUT_SECONDS: Final = 10
"""How long sent data may remain without TCP's acknowledgement."""


class BridgeEnd(asyncio.Protocol):
    """One end of a bridge. What it receives before it has a peer is kept."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: BridgeEnd | None = None
        self.lost: str | None = None
        """Why the connection ended; None while it has not."""
        self.unread = 0
        """Bytes received since the last complete answer."""
        self.on_lost: Callable[[str], None] = _ignore
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, or keep them for `request`."""
        self.unread += len(data)
        if self.unread > _MAX_UNREAD_BYTES:
            self.abort("the server sent more than 64 MiB for one answer")
        elif self.peer is None or self.peer.transport is None:
            self._buffer += data
            self._wake()
        else:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        """Stop the peer from reading: this end cannot send."""
        if self.peer and self.peer.transport:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the peer read again."""
        if self.peer and self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the peer once it has sent what came before the end."""
        self.transport = None
        if self.lost is None:
            self.lost = (
                "the server closed the connection"
                if error is None
                else f"the connection broke: {getattr(error, 'strerror', None) or error}"
            )
        self._wake()
        if self.peer:
            self.peer.close()
        self.on_lost(self.lost)

    def close(self) -> None:
        """Close the connection once everything written has been sent."""
        # asyncio's TLS transports forget their protocol when they are closed twice, and before
        # Python 3.11.3 raise AttributeError if they are aborted then. So a transport is closed
        # once, aborted once, and left alone when it is lost.
        if self.lost is None and self.transport:
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Drop the connection immediately."""
        if self.lost is None:
            self.lost = reason
            if self.transport:
                self.transport.abort()

    async def request(self, message: bytes) -> messages.LdapReply:
        """Send a message and return the reply. Only before `join`. Raises ServerFault."""
        if self.transport is None or self.lost is not None:
            raise ServerFault(self.lost or "there is no connection")
        self.transport.write(message)
        while (answer := messages.pop_message(self._buffer)) is None:
            if self.lost is not None:
                raise ServerFault(self.lost)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return messages.parse_reply(answer)

    def check_nothing_buffered(self) -> None:
        """Raise ServerFault if someone has slipped in plain text before TLS begins."""
        if self._buffer:
            raise ServerFault(
                "the server sent plain text where TLS begins", "check whether the port speaks TLS"
            )

    def join(self, peer: "BridgeEnd") -> None:
        """Carry bytes between two ends from now on."""
        self.peer, peer.peer = peer, self
        if self._buffer and peer.transport:
            peer.transport.write(bytes(self._buffer))
            self._buffer.clear()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


def _ignore(_reason: str) -> None:
    """Nobody has asked for a notification."""


class Bridge:
    """An open connection to a server."""

    def __init__(self, url: ServerUrl, server: BridgeEnd, *, encrypted: bool) -> None:
        self.url = url
        self.encrypted = encrypted
        self._server = server

    async def request(self, message: bytes) -> messages.LdapReply:
        """Send a message and return the reply. Only before `hand_over`. Raises ServerFault."""
        return await self._server.request(message)

    async def hand_over(self) -> int:
        """Return a file descriptor for libldap, which must close it. Raises ServerFault."""
        ours, theirs = socket.socketpair()
        try:
            for end in (ours, theirs):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            _, local = await asyncio.get_running_loop().create_connection(BridgeEnd, sock=ours)
            self._server.join(local)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        if self._server.lost is not None:
            theirs.close()
            raise ServerFault(self._server.lost)
        return theirs.detach()

    def on_lost(self, call: "Callable[[str], None]") -> None:
        """Call a function with the reason when the connection has ended."""
        self._server.on_lost = call

    @property
    def lost(self) -> str | None:
        """Why the connection ended; None while it has not."""
        return self._server.lost

    def note_complete_answer(self) -> None:
        """Note that the bytes received so far have made up an answer."""
        self._server.unread = 0

    def abort(self, reason: str) -> None:
        """Drop the connection immediately."""
        self._server.abort(reason)


async def open_bridge(
    url: ServerUrl,
    options: LdapOptions,
    contexts: TlsContexts,
    threads: AbandonableThreadPool,
    observe: StepObserver,
) -> Bridge:
    """Connect to a server, with TLS as configured. Raises LdapFault.

    The caller bounds the time; a cancelled call leaves nothing behind.
    """
    with timed_step("resolve", str(url), observe) as step:
        addresses = await resolve_host(url.host, url.port, threads)
        step.detail = ", ".join(address.ip for address in addresses)
    end = BridgeEnd()
    try:
        with timed_step("connect", str(url), observe) as step:
            step.detail = await _connect(end, url, addresses, options.connect_timeout)
        encrypted = url.encrypted or options.start_tls
        if encrypted:
            context = await contexts.context()
            if not url.encrypted:
                with timed_step("starttls", str(url), observe):
                    await _request_tls(end)
            with timed_step("tls", str(url), observe) as step:
                step.detail = await _encrypt(end, context, options.tls_server_name or url.host)
    except BaseException:
        end.abort("given up")
        raise
    return Bridge(url, end, encrypted=encrypted)


async def _connect(
    end: BridgeEnd, url: ServerUrl, addresses: tuple[IpAddress, ...], seconds: float
) -> str:
    """Connect to the first address that answers; return it."""
    fault = "it has no address"
    loop = asyncio.get_running_loop()
    share = seconds / max(1, len(addresses))
    for address in addresses:
        try:
            async with asyncio.timeout(share):
                transport, _ = await loop.create_connection(
                    lambda: end, address.ip, url.port, family=address.family
                )
        except TimeoutError:
            fault = f"no answer from {address.ip} within {share:g} s"
        except OSError as error:
            # In place of the reason, asyncio's text has the address.
            fault = f"{address.ip}: {os.strerror(error.errno) if error.errno else error}"
        else:
            _set_tcp_options(transport.get_extra_info("socket"))
            return address.ip
    raise ServerFault(
        f"cannot connect to {url}: {fault}", "check host, port and firewalls on the way"
    )


def _set_tcp_options(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_SECONDS * 1000
        )


async def _request_tls(end: BridgeEnd) -> None:
    try:
        reply = await end.request(messages.start_tls_request())
    except ServerFault as fault:
        advice = fault.advice or "check whether the port is one for ldap:// and not for ldaps://"
        raise ServerFault(fault.detail, advice) from None
    if reply.code != 0:
        raise ServerFault(
            f"the server refused StartTLS (code {reply.code}): {reply.text}",
            "use ldaps://, or configure TLS on the server",
        )


async def _encrypt(end: BridgeEnd, context: ssl.SSLContext, name: str) -> str:
    """Do the TLS handshake; return protocol and cipher."""
    plain = end.transport
    if plain is None or end.lost is not None:
        raise ServerFault(end.lost or "there is no connection")
    end.check_nothing_buffered()
    try:
        transport = await asyncio.get_running_loop().start_tls(
            plain, end, context, server_hostname=name
        )
    except ssl.SSLCertVerificationError as error:
        raise ServerFault(
            f"the server's certificate is not valid: {error.verify_message}",
            "check ca_file, the names in the certificate and its dates",
        ) from None
    except ssl.SSLError as error:
        raise ServerFault(
            f"the TLS handshake failed: {error.reason or error}",
            "check tls_min_version, cert_file, and whether the port speaks TLS",
        ) from None
    except OSError:
        transport = None
    if transport is None:
        raise ServerFault(
            "the connection broke in the TLS handshake", "check whether the port speaks TLS"
        )
    end.transport = transport
    tls = transport.get_extra_info("ssl_object")
    try:
        return f"{tls.version()}, {tls.cipher()[0]}"
    except (AttributeError, TypeError) as error:
        raise LdapFault("the connection is not encrypted") from error
