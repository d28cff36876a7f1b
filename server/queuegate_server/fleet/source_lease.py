"""Lets one replica of a fleet follow a source, and the next one continue where it stopped.

The replica that follows a source holds a lease in Redis, and stores the position up to which all
changes are events of the fleet. Two replicas may follow at once for a moment; changes then become
events twice, which is harmless. A position carries a MAC, because someone who can write to Redis
must not be able to make the fleet skip changes. An old position only makes the fleet repeat them.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.keys import MAC_BYTES, Signer
from queuegate_server.fleet.session import JOIN_POLL_SECONDS, FleetSession
from queuegate_server.fleet.stream import Stream
from queuegate_server.identity.resolver import CannotFollow

LEASE_SECONDS: Final = 5.0
"""How long a lease lasts. The next replica starts to follow at most this long after a crash."""
RENEW_SECONDS: Final = 1.0
"""The pause between renewals, and between attempts of other replicas to get the lease."""
POSITION_SECONDS: Final = 7 * 86_400.0
"""How long Redis keeps a position."""


class SourceLease:
    """Implements `identity.shared.FollowerLease` for one source."""

    def __init__(
        self, stream: Stream, session: FleetSession, signer: Signer, source: Callable[[], str]
    ) -> None:
        """Create a lease that is not held.

        `source` identifies the resolver's settings and the partitions that use it.
        """
        self._stream = stream
        self._session = session
        self._signer = signer
        self._source = source
        self._name = b""
        """Identifies the source for which the lease is held or wanted."""

    async def acquire(self, wait: Callable[[], None]) -> bytes | None:
        """Wait for the lease; see `FollowerLease`. Raises CannotFollow."""
        await self._until_joined()
        self._name = self._current_name()
        while (value := await self._hold(None)) is None:
            wait()
            await asyncio.sleep(RENEW_SECONDS)
            self._name = self._current_name()
        return self._decode(value)

    async def keep(self, position: Callable[[], bytes | None]) -> None:
        """Keep the lease, and store the position; see `FollowerLease`. Raises CannotFollow."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            if self._name != self._current_name():
                raise CannotFollow("other partitions use the resolver now")
            if await self._hold(position()) is None:
                raise CannotFollow("another replica follows the source")

    async def release(self, position: bytes | None) -> None:
        """Store the position, and give up the lease. Never raises."""
        try:
            await self._stream.hold_source(
                self._name,
                self._instance,
                self._encode(position),
                seconds=LEASE_SECONDS,
                position_seconds=POSITION_SECONDS,
                release=True,
            )
        except StoreUnavailable:
            return

    async def _until_joined(self) -> None:
        """Wait until this replica follows the fleet, because until then changes cannot become
        events.
        """
        for _ in range(int(LEASE_SECONDS / JOIN_POLL_SECONDS)):
            if self._session.log.position is not None:
                return
            await asyncio.sleep(JOIN_POLL_SECONDS)
        raise CannotFollow("this replica does not follow its fleet")

    @property
    def _instance(self) -> bytes:
        return self._session.peers.instance.encode()

    async def _hold(self, position: bytes | None) -> bytes | None:
        """Take or renew the lease; return the stored value, or None if another replica has it.

        The position is stored only if all changes by this replica are events.
        """
        try:
            return await self._stream.hold_source(
                self._name,
                self._instance,
                self._encode(position),
                seconds=LEASE_SECONDS,
                position_seconds=POSITION_SECONDS,
            )
        except StoreUnavailable as error:
            raise CannotFollow(f"Redis is unavailable: {error}") from None

    def _current_name(self) -> bytes:
        # A keyed hash, because a plain one would let clients of Redis verify guessed settings.
        return self._signer.mac(b"source", self._source().encode())[:16]

    def _encode(self, position: bytes | None) -> bytes:
        """Return the value to store; empty to store none."""
        if not position or self._session.has_unsent:
            return b""
        return self._signer.mac(b"position", self._name, position) + position

    def _decode(self, value: bytes) -> bytes | None:
        mac, position = value[:MAC_BYTES], value[MAC_BYTES:]
        is_valid = self._signer.is_valid(mac, b"position", self._name, position)
        return position if position and is_valid else None
