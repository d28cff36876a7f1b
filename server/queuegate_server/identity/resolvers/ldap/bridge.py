"""Connects libldap to a directory server through an asyncio transport.

libldap 2.5 cannot bound the duration of a TLS handshake. Therefore, asyncio handles TCP, StartTLS
and TLS, and libldap gets one end of a nonblocking socket pair. The bridge relays data in both
directions with backpressure, and checks data from the server.
"""

import asyncio
import logging
import socket
import ssl
import time
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from queuegate_server.identity.certificate_advice import certificate_advice
from queuegate_server.identity.resolvers.ldap.discovery import ServerUrl
from queuegate_server.identity.resolvers.ldap.ldap_faults import ServerFault, unreadable_response
from queuegate_server.identity.resolvers.ldap.ldap_messages import (
    BIND_RESPONSE,
    LONG_BYTES,
    MAX_CONTROL_MESSAGE_BYTES,
    LdapReply,
    MalformedMessage,
    MessageHead,
    MessageReader,
    TooManyElements,
    check_message,
    read_result,
)
from queuegate_server.runtime.pacing import ANSWERS, STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from queuegate_server.identity.resolvers.ldap.pending import PendingRequests

_LOG = logging.getLogger("queuegate_server.identity.ldap")

_SEND_BUFFER_BYTES: Final = 1 << 20
_RECEIVING_SECONDS: Final = 0.001
"""How long receiving and decrypting one part of long data takes, of up to 256 KiB."""
_MAX_BYTES_BEFORE_BIND: Final = 4 * MAX_CONTROL_MESSAGE_BYTES
"""The maximum total size of responses during the bind. Kerberos needs several responses."""
_MAX_ELEMENTS_BEFORE_BIND: Final = 64
_FIRST_ID: Final = 1
SASL_EXTERNAL_REQUEST: Final = (
    bytes.fromhex("3018 0201 01 6013 0201 03 0400 a30c 0408") + b"EXTERNAL" + bytes.fromhex("0400")
)
"""An LDAPv3 bind request with message id 1, no name and empty credentials."""


class _End(asyncio.Protocol):
    """One end of a bridge. Forwards data to the other end (`peer`)."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: _End | None = None
        self.lost: str | None = None
        """Why the connection was lost; None while it is open."""
        self.on_lost: Callable[[str], None] | None = None
        """Called with the reason when the connection is lost."""
        self._holds = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        """Stop the peer from reading while this end cannot send."""
        if self.peer:
            self.peer.hold()

    def resume_writing(self) -> None:
        if self.peer:
            self.peer.release()

    def hold(self) -> None:
        """Pause reading. Each call must be undone by a call to `release`."""
        self._holds += 1
        if self._holds == 1 and self.transport and not self.transport.is_closing():
            self.transport.pause_reading()

    def release(self) -> None:
        """Undo one call to `hold`; resume reading if it was the last."""
        self._holds -= 1
        if self._holds == 0 and self.transport and not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Record why the connection was lost. Close the peer after it has sent pending data."""
        self.transport = None
        if self.lost is None:
            self.lost = (
                "the server closed the connection"
                if error is None
                else f"the connection was lost: {getattr(error, 'strerror', None) or error}"
            )
        if self.peer:
            self.peer.close()
        if self.on_lost:
            self.on_lost(self.lost)

    def close(self) -> None:
        """Close the connection after sending all pending data."""
        # Closing an asyncio TLS transport twice clears its protocol; before Python 3.11.3, aborting
        # it then raises AttributeError. Therefore, a transport is closed at most once, aborted at
        # most once, and never used after its connection is lost.
        if self.lost is None and self.transport:
            self.transport.close()

    def abort(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            if self.transport:
                self.transport.abort()


class Bridge(_End):
    """The server's end of a bridge; `hand_over` creates libldap's end."""

    def __init__(self, url: ServerUrl) -> None:
        super().__init__()
        self.url = url
        self.encrypted = False
        self.receiver: PendingRequests | None = None
        """The message filter; None until the LdapConnection is created."""
        self._reader = MessageReader(self._admit)
        self._bytes_before_bind = 0
        self._expected: int | None = None
        """The type of reply that `request` is waiting for."""
        self._reply: asyncio.Future[LdapReply] | None = None
        self._fault: ServerFault | None = None
        self._work: Iterator[None] | None = None
        """The unfinished work on received messages; None if all of them have been handled."""
        self._next_step: asyncio.TimerHandle | None = None
        self._propagate_loss: Callable[[], None] | None = None
        """Closes libldap's end. Set when the connection to the server is lost; None until then."""

    def data_received(self, data: bytes) -> None:
        """Check data from the server, and forward it to libldap."""
        self._reader.add(data)
        if self._next_step is None and self._reader.size > LONG_BYTES:
            # Otherwise, no call would be served until a long message has arrived.
            self._pause(ANSWERS.wait(_RECEIVING_SECONDS))
        else:
            self._read_messages()

    def connection_lost(self, error: Exception | None) -> None:
        """Close libldap's end after forwarding the remaining messages."""
        self.transport = None
        self._propagate_loss = partial(super().connection_lost, error)
        self._finish()

    def _read_messages(self) -> None:
        """Check and forward messages, pausing every few milliseconds."""
        if self._next_step is not None:
            return
        if self.lost is not None:
            self._work = None
            return
        start = time.monotonic()
        self._work = self._work or self._handle_messages()
        try:
            for _ in self._work:
                if self.lost is not None:
                    break
                if (worked := time.monotonic() - start) > STEP_SECONDS:
                    self._pause(ANSWERS.wait(worked))
                    return
            ANSWERS.wait(time.monotonic() - start)
        except ServerFault as fault:
            self._fail(fault)
        except UnicodeDecodeError as error:
            self._fail(unreadable_response(error))
        except Exception as error:
            _LOG.error("queuegate cannot handle a response of %s", self.url, exc_info=error)
            self._fail(ServerFault(f"queuegate failed: {type(error).__name__}"))
        self._work = None

    def _fail(self, fault: ServerFault) -> None:
        """Close the connection.

        A message must not be skipped, because it may report a change; the next connection reads
        everything again.
        """
        self._fault = fault
        (self.receiver or self).close(fault.detail)

    def _handle_messages(self) -> "Iterator[None]":
        """Check and forward the messages that have arrived. Yields where a step may end."""
        for head, message in self._reader.messages():
            if message is not None:
                is_for_libldap = yield from (self.receiver or self).take(head, message)
                if is_for_libldap:
                    super().data_received(message)
            yield

    def _pause(self, seconds: float) -> None:
        self.hold()
        self._next_step = asyncio.get_running_loop().call_later(seconds, self._continue)

    def _continue(self) -> None:
        self.release()
        self._next_step = None
        self._read_messages()
        self._finish()

    def _finish(self) -> None:
        """Close libldap's end, and fail a pending `request`, once all messages are read."""
        if self._propagate_loss is not None and self._next_step is None:
            self._propagate_loss()
            self._fail_request()

    def _admit(self, head: MessageHead) -> bool:
        return (self.receiver or self).admit(head)

    def admit(self, head: MessageHead) -> bool:
        """Admit only responses to bind and StartTLS requests."""
        self._bytes_before_bind += head.size
        if self._bytes_before_bind > _MAX_BYTES_BEFORE_BIND:
            raise ServerFault("the server sent too much before the bind")
        by_libldap = self.peer is not None and head.operation == BIND_RESPONSE
        is_reply = (head.id, head.operation) == (_FIRST_ID, self._expected)
        if head.size > MAX_CONTROL_MESSAGE_BYTES or not (by_libldap or is_reply):
            raise ServerFault("the server sent an unexpected type of response")
        return True

    def take(self, head: MessageHead, message: bytes) -> "Generator[None, None, bool]":
        """Check a message; return whether to forward it. A reply to `request` is not forwarded."""
        try:
            yield from check_message(message, _MAX_ELEMENTS_BEFORE_BIND)
        except TooManyElements:
            raise MalformedMessage from None
        if self._expected != head.operation:
            return True
        self._expected = None
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(read_result(message))
        return False

    def close(self, reason: str = "") -> None:
        """Abort the connection if `reason` is given; otherwise, close it after sending all data."""
        if reason:
            self.abort(reason)
            self._fail_request()
        else:
            super().close()

    async def request(self, message: bytes, expected: int) -> LdapReply:
        """Send a request with message id 1 and return the reply of type `expected`.

        Must be called before `hand_over`. Raises ServerFault.
        """
        transport = self._open_transport()
        self._expected, self._reply = expected, asyncio.get_running_loop().create_future()
        transport.write(message)
        return await self._reply

    async def encrypt(self, context: ssl.SSLContext, name: str) -> str:
        """Perform a TLS handshake; return the protocol and cipher. Raises ServerFault."""
        if self._fault is not None or not self._reader.is_between_messages:
            # Reject plain text received before the handshake: an attacker could have injected it.
            raise ServerFault(
                "the server sent plain text instead of a TLS handshake",
                "check whether the port speaks TLS",
            )
        plain = self._open_transport()
        try:
            transport = await asyncio.get_running_loop().start_tls(
                plain, self, context, server_hostname=name
            )
        except ssl.SSLCertVerificationError as error:
            raise ServerFault(
                f"the server's certificate is not valid: {error.verify_message}",
                certificate_advice(error.verify_code, "urls, or set tls_server_name to one"),
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
                "the connection was lost during the TLS handshake",
                "check whether the port speaks TLS",
            )
        self.transport = transport
        tls = transport.get_extra_info("ssl_object")
        self.encrypted = True
        return f"{tls.version()}, {tls.cipher()[0]}"

    async def hand_over(self) -> int:
        """Create libldap's end; return its descriptor for libldap to own. Raises ServerFault."""
        ours, theirs = socket.socketpair()
        try:
            for end in (ours, theirs):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            _, local = await asyncio.get_running_loop().create_connection(_End, sock=ours)
            self.peer, local.peer = local, self
        except BaseException:
            ours.close()
            theirs.close()
            raise
        if self.lost is not None:
            theirs.close()
            raise self._fault or ServerFault(self.lost)
        return theirs.detach()

    def _open_transport(self) -> asyncio.Transport:
        if self.transport is None or self.lost is not None:
            raise self._fault or ServerFault(self.lost or "not connected")
        return self.transport

    def _fail_request(self) -> None:
        if self._reply is not None and not self._reply.done() and self.lost is not None:
            self._reply.set_exception(self._fault or ServerFault(self.lost))
