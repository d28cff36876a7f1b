"""A connection that asyncio owns, with its other end in the hands of libldap.

libldap 2.5 has no options that bound a TLS handshake. So asyncio does TCP, StartTLS and TLS, and
libldap gets one end of a socket pair that never blocks. The bridge carries the bytes; each end
stops reading while the other cannot send.
"""

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pyasn1.codec.ber import decoder
from pyasn1.error import PyAsn1Error, SubstrateUnderrunError
from pyasn1_modules import rfc2251

from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl, resolve_host
from queuegate_server.identity.resolvers.ldap.errors import ServerFault
from queuegate_server.identity.resolvers.ldap.instrumentation import StepObserver, timed_step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.runtime.threads import AbandonableThreadPool, AllThreadsHang, StillRunning

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_UNREAD_BYTES: Final = 64 * 2**20
"""The most bytes that a server may send without completing an answer."""
_SEND_BUFFER_BYTES: Final = 1 << 20
_TCP_USER_TIMEOUT_MS: Final = 10_000
"""How long sent data may remain without TCP's acknowledgement."""
_START_TLS_REQUEST: Final = bytes.fromhex("301d 0201 01 7718 8016") + b"1.3.6.1.4.1.1466.20037"
"""An extended request with message id 1."""
SASL_EXTERNAL_REQUEST: Final = (
    bytes.fromhex("3018 0201 01 6013 0201 03 0400 a30c 0408") + b"EXTERNAL" + bytes.fromhex("0400")
)
"""A bind request of LDAP version 3 with message id 1, without a name and with empty credentials."""
_MAX_REPLY_BYTES: Final = 65_536
_SEQUENCE: Final = 0x30
"""The first byte of every message."""


class LdapReply(NamedTuple):
    """The answer of a server to StartTLS or to a SASL bind."""

    code: int
    """The result code: 0 is success."""
    text: str


class _End(asyncio.Protocol):
    """One end of a bridge. What it receives before it has a peer is kept."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _End | None = None
        self.lost: str | None = None
        """Why the connection ended; None while it has not."""
        self.on_lost: Callable[[str], None] | None = None
        """Called with the reason when the connection has ended."""
        self._unread = 0
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, or keep them until there is a peer."""
        self._unread += len(data)
        if self._unread > _MAX_UNREAD_BYTES:
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
        if self.on_lost:
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

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class Bridge(_End):
    """The server's end of a bridge; `hand_over` adds the end of libldap."""

    def __init__(self, url: ServerUrl) -> None:
        super().__init__()
        self.url = url
        self.encrypted = False

    async def request(self, message: bytes) -> LdapReply:
        """Send a message and return the reply. Only before `hand_over`. Raises ServerFault."""
        self._open_transport().write(message)
        while (reply := _pop_reply(self._buffer)) is None:
            if self.lost is not None:
                raise ServerFault(self.lost)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return reply

    async def encrypt(self, context: ssl.SSLContext, name: str) -> str:
        """Do the TLS handshake for a name; return protocol and cipher. Raises ServerFault."""
        plain = self._open_transport()
        if self._buffer:
            # Someone on the way could have put it there.
            raise ServerFault(
                "the server sent plain text where TLS begins", "check whether the port speaks TLS"
            )
        try:
            transport = await asyncio.get_running_loop().start_tls(
                plain, self, context, server_hostname=name
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
        self.transport = transport
        tls = transport.get_extra_info("ssl_object")
        self.encrypted = True
        return f"{tls.version()}, {tls.cipher()[0]}"

    async def hand_over(self) -> int:
        """Return a file descriptor for libldap, which must close it. Raises ServerFault."""
        ours, theirs = socket.socketpair()
        try:
            for end in (ours, theirs):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            _, local = await asyncio.get_running_loop().create_connection(_End, sock=ours)
            self.peer, local.peer = local, self
            if self._buffer and local.transport:
                local.transport.write(bytes(self._buffer))
                self._buffer.clear()
        except BaseException:
            ours.close()
            theirs.close()
            raise
        if self.lost is not None:
            theirs.close()
            raise ServerFault(self.lost)
        return theirs.detach()

    def _open_transport(self) -> asyncio.Transport:
        if self.transport is None or self.lost is not None:
            raise ServerFault(self.lost or "there is no connection")
        return self.transport

    def note_complete_answer(self) -> None:
        """Note that the bytes received so far have made up an answer."""
        self._unread = 0


async def open_bridge(
    url: ServerUrl,
    options: LdapOptions,
    threads: AbandonableThreadPool,
    observe: StepObserver,
) -> Bridge:
    """Connect to a server, with TLS as configured. Raises LdapFault.

    The caller bounds the time; a cancelled call leaves nothing behind.
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
        bridge.abort("given up")
        raise
    return bridge


async def _tls_context(options: LdapOptions, threads: AbandonableThreadPool) -> ssl.SSLContext:
    try:
        return await threads.run("tls", options.tls_context)
    except ValueError as error:
        raise ServerFault(str(error), "check ca_file, cert_file and key_file") from None
    except (StillRunning, AllThreadsHang):
        raise ServerFault("reading the certificate files hangs") from None


async def _connect(bridge: Bridge, addresses: tuple[str, ...], seconds: float) -> str:
    """Connect to the first address that answers; return it."""
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
            # In place of the reason, asyncio's text has the address.
            fault = f"{address}: {os.strerror(error.errno) if error.errno else error}"
        else:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                connection.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _TCP_USER_TIMEOUT_MS
                )
            return address
    raise ServerFault(f"cannot connect: {fault}", "check host, port and firewalls on the way")


async def _request_tls(bridge: Bridge) -> None:
    try:
        reply = await bridge.request(_START_TLS_REQUEST)
    except ServerFault as fault:
        advice = fault.advice or "check whether the port is one for ldap:// and not for ldaps://"
        raise ServerFault(fault.detail, advice) from None
    if reply.code != 0:
        raise ServerFault(
            f"the server refused StartTLS (code {reply.code}): {reply.text}",
            "use ldaps://, or configure TLS on the server",
        )


def _pop_reply(buffer: bytearray) -> LdapReply | None:
    """Remove and return the reply in a buffer; None while it is incomplete.

    Raises ServerFault for bytes that are no reply to one of our requests.
    """
    if buffer and (buffer[0] != _SEQUENCE or len(buffer) > _MAX_REPLY_BYTES):
        raise ServerFault(
            "the server does not speak LDAP",
            "check the port: it may be one for ldaps, or not that of a directory",
        )
    try:
        decoded, rest = decoder.decode(bytes(buffer), asn1Spec=rfc2251.LDAPMessage())
    except SubstrateUnderrunError:
        return None
    except PyAsn1Error:
        raise ServerFault("the server sent an answer that is not LDAP") from None
    buffer[:] = rest
    operation = decoded["protocolOp"]
    if operation.getName() not in ("extendedResp", "bindResponse"):
        raise ServerFault("the server sent an unexpected kind of answer")
    answer = operation.getComponent()
    text = bytes(answer["errorMessage"]).decode("utf-8", "replace")
    return LdapReply(int(answer["resultCode"]), text)
