"""Carries bytes between a server and libldap's end of a socket pair.

Both sides push back on the other when they cannot keep up.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from queuegate_server.identity.resolvers.ldap.errors import ServerFault
from queuegate_server.identity.resolvers.ldap.messages import take_message

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_UNREAD: Final = 64 * 2**20
"""Bytes that a server may send without completing an answer."""


class Side(asyncio.Protocol):
    """One side of a relay: until it has a peer, what it receives waits."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: Side | None = None
        self.lost: str | None = None
        """Why the connection ended, once it did."""
        self.unread = 0
        """Bytes received since whoever counts set it to 0."""
        self.on_lost: Callable[[str], None] = _ignore
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on, or keep them for `ask`."""
        self.unread += len(data)
        if self.unread > MOST_UNREAD:
            self.end("the server sent more than 64 MiB for one answer")
        elif self.peer is None or self.peer.transport is None:
            self._buffer += data
            self._wake()
        else:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        """Let the peer read no more: this side cannot send."""
        if self.peer and self.peer.transport:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Let the peer read again."""
        if self.peer and self.peer.transport and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Close the other side once it has passed on what came before the end."""
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
        # Python 3.11.3 raise AttributeError if they are aborted then. So each transport gets one
        # call to close it, one to abort it, and none once it is lost.
        if self.lost is None and self.transport:
            self.transport.close()

    def end(self, reason: str) -> None:
        """Drop the connection at once."""
        if self.lost is None:
            self.lost = reason
            if self.transport:
                self.transport.abort()

    async def ask(self, message: bytes) -> bytes:
        """Send a message and return the next one that comes. Before `join` only."""
        if self.transport is None or self.lost is not None:
            raise ServerFault(self.lost or "there is no connection")
        self.transport.write(message)
        while (answer := take_message(self._buffer)) is None:
            if self.lost is not None:
                raise ServerFault(self.lost)
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return answer

    def nothing_more_came(self) -> None:
        """Make sure that nobody slipped plain text in before TLS begins."""
        if self._buffer:
            raise ServerFault(
                "the server sent plain text where TLS begins", "check whether the port speaks TLS"
            )

    def join(self, peer: "Side") -> None:
        """Carry bytes from here on."""
        self.peer, peer.peer = peer, self
        self.pass_on()
        peer.pass_on()

    def pass_on(self) -> None:
        """Send the peer what came before it was there."""
        if self._buffer and self.peer and self.peer.transport:
            self.peer.transport.write(bytes(self._buffer))
            self._buffer.clear()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


def _ignore(_reason: str) -> None:
    """Nobody wants to know."""
