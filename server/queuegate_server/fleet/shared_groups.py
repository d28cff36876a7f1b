"""Users' groups, shared among replicas through Redis.

A value carries the log position that its writer had reached before querying the resolver. Readers
accept the value only if they know all later events and none of these invalidates the user. A lookup
that predates an invalidation is therefore never used after it, no matter which replica stored the
result or how slow the lookup or write was.

A replica that finds no value locks the lookup. Other replicas wait briefly for the result, so
replicas that need the same user at once perform a single lookup.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from queuegate_server.fleet.keys import MAC_BYTES, Keys, LogPosition, Signer
from queuegate_server.fleet.replica_log import ReplicaLease
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.shared import SharedResult

FORMAT: Final = 1
"""The version of the value format; values in other formats are rejected."""
MAX_VALUE_BYTES: Final = 256 * 1024
"""Larger values are not shared."""
CLOCK_SKEW: Final = 5.0
"""The maximum tolerated difference between replicas' wall clocks, in seconds."""

LOCK_SECONDS: Final = 0.1
"""The TTL of a lookup lock."""
WAIT_SECONDS: Final = 0.05
"""How long other replicas wait for the result before they query the resolver themselves."""
POLL_SECONDS: Final = 0.002
"""The first pause between attempts to read the result, in seconds; it doubles each time."""


class Fence(Protocol):
    """Validates shared groups against the events that this replica has applied."""

    @property
    def position(self) -> LogPosition | None:
        """The newest applied event; None while no history is followed."""

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether groups looked up at the position `since` are still valid."""


class ValueUnavailable(Exception):
    """The store is unavailable or did not respond in time."""


class InvalidValue(Exception):
    """Raised for a value that must not be used. The argument is the cause for metrics."""


class ValueStore(Protocol):
    """A key-value store with locks, as provided by Redis."""

    async def get(self, key: str) -> bytes | None:
        """Return a key's value; None if it has none. Raises ValueUnavailable."""

    async def lock(self, key: str, seconds: float) -> bool:
        """Lock a key for `seconds`; return False if already locked. Raises ValueUnavailable."""

    def put(self, key: str, make: Callable[[], bytes | None], seconds: float) -> None:
        """Queue a value that expires after `seconds`. `make` returns it, or None to cancel."""


class GroupCounts:
    """Counts shared-group reads by result, and rejected values by cause."""

    def __init__(self) -> None:
        self.reads: Final = dict.fromkeys(("hit", "miss", "unavailable"), 0)
        self.refused: Final = dict.fromkeys(("mac", "format", "settings", "expired", "outdated"), 0)


@dataclass(frozen=True, slots=True, eq=False)
class PartitionGroups:
    """Implements `identity.shared.SharedGroups` for one partition."""

    _store: ValueStore
    _codec: "ValueCodec"
    _fence: Fence
    _lease: ReplicaLease
    _counts: GroupCounts
    _clock: Callable[[], float]
    """The cache lease's clock, in seconds."""

    @property
    def resolver_fingerprint(self) -> bytes:
        """Identifies the resolver's settings; see `SharedGroups`."""
        return self._codec.resolver_fingerprint

    async def get(self, user: str) -> SharedResult | None:
        """Return a currently valid lookup result, or None."""
        try:
            result = await self._find(user)
        except ValueUnavailable:
            self._counts.reads["unavailable"] += 1
            return None
        self._counts.reads["miss" if result is None else "hit"] += 1
        return result

    def begin(self, user: str) -> Callable[[SharedResult], None] | None:
        """Record the log position before a lookup; return a function to store the result later.

        Returns None if this replica cannot validate groups.
        """
        position = self._position()
        return None if position is None else partial(self._publish, user, position)

    def _publish(self, user: str, position: LogPosition, result: SharedResult) -> None:
        """Store a lookup result unless a later event has invalidated it."""
        key = self._codec.key(user)

        def make() -> bytes | None:
            try:
                self._check_order(user, position)
            except InvalidValue:
                return None
            return self._codec.encode(key, position, result)

        self._store.put(key, make, result.expires_at - result.resolved_at)

    async def _find(self, user: str) -> SharedResult | None:
        """Return another replica's result; None if this replica must query the resolver.

        Raises ValueUnavailable.
        """
        if self._position() is None:
            raise ValueUnavailable
        try:
            result = await self._read(user)
        except InvalidValue as refused:
            self._counts.refused[str(refused)] += 1
            result = None
        position = self._position()
        if result is not None or position is None:
            return result
        if await self._store.lock(self._codec.lookup_lock(user, position), LOCK_SECONDS):
            return None
        return await self._await_locked(user)

    async def _await_locked(self, user: str) -> SharedResult | None:
        """Wait for another replica's result; return None if it does not arrive in time.

        Raises ValueUnavailable.
        """
        result, pause, left = None, POLL_SECONDS, WAIT_SECONDS
        while result is None and left > 0:
            await asyncio.sleep(min(pause, left))
            left -= pause
            pause *= 2
            with contextlib.suppress(InvalidValue):
                result = await self._read(user)
        return result

    async def _read(self, user: str) -> SharedResult | None:
        """Return the result in Redis, or None. Raises InvalidValue or ValueUnavailable."""
        key = self._codec.key(user)
        raw = await self._store.get(key)
        if raw is None:
            return None
        position, result = self._codec.decode(key, raw)
        self._check_order(user, position)
        return result

    def _position(self) -> LogPosition | None:
        # A process resumed after a pause detects here that its lease has expired.
        self._lease.end_if_expired(self._clock())
        return self._fence.position

    def _check_order(self, user: str, position: LogPosition) -> None:
        """Raise InvalidValue if groups looked up at a position may be outdated."""
        partition = self._codec.partition
        if self._position() is None or not self._fence.accepts(partition, user, position):
            raise InvalidValue("outdated")


class ValueCodec:
    """Encodes and decodes one partition's values in Redis."""

    def __init__(
        self,
        signer: Signer,
        keys: Keys,
        partition: str,
        resolver: str,
        wall: Callable[[], float],
    ) -> None:
        """Create a codec that rejects values whose resolver settings differ from `resolver`."""
        self.partition: Final = partition
        self._signer = signer
        self._keys = keys
        # Use a keyed hash, because a plain hash would let gates and Redis clients verify guessed
        # settings.
        self.resolver_fingerprint: Final = signer.mac(b"settings", resolver.encode())
        self._wall = wall

    def key(self, user: str) -> str:
        """Return the key of a user's value."""
        return self._keys.user(self.partition, user)

    def lookup_lock(self, user: str, position: LogPosition) -> str:
        """Return the key of the lock for looking up a user's groups at a log position."""
        return self._keys.lookup(self.partition, user, position.sequence)

    def encode(self, key: str, position: LogPosition, result: SharedResult) -> bytes | None:
        """Encode a value; return None if it is too large to be shared."""
        outcome = result.outcome
        fields = (
            FORMAT,
            self.resolver_fingerprint.hex(),
            position.epoch.hex(),
            position.sequence,
            position.nonce.hex(),
            result.resolved_at,
            result.expires_at,
            outcome.groups if isinstance(outcome, KnownUser) else outcome.detail,
        )
        content = json.dumps(fields, separators=(",", ":")).encode()
        if len(content) > MAX_VALUE_BYTES:
            return None
        return self._signer.mac(key.encode(), content) + content

    def decode(self, key: str, value: bytes) -> tuple[LogPosition, SharedResult]:
        """Return a value's log position and lookup result. Raises InvalidValue."""
        content = value[MAC_BYTES:]
        if not self._signer.is_valid(value[:MAC_BYTES], key.encode(), content):
            raise InvalidValue("mac")
        fields = json.loads(content)
        if fields[0] != FORMAT:
            raise InvalidValue("format")
        fingerprint, epoch, sequence, nonce, resolved_at, expires_at, outcome = fields[1:]
        if fingerprint != self.resolver_fingerprint.hex():
            raise InvalidValue("settings")
        now = self._wall()
        if expires_at <= now or resolved_at > now + CLOCK_SKEW:
            raise InvalidValue("expired")
        groups = NoSuchUser(outcome) if isinstance(outcome, str) else KnownUser(tuple(outcome))
        position = LogPosition(bytes.fromhex(epoch), sequence, bytes.fromhex(nonce))
        return position, SharedResult(groups, resolved_at, expires_at)
