"""The groups of users that replicas share through Redis.

A value carries the position in the fleet's order of events that its writer had applied before it
asked the resolver. The reader accepts it only if it knows all events since then, and none of them
invalidates the user. So an answer from before an invalidation is never used after it, however slow
the lookup or the write was, and whichever replica stored it.

A replica that finds no value locks the lookup. The others wait a moment for its answer, so replicas
that need a user at the same time make one lookup.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from queuegate_server.fleet.keys import MAC_BYTES, Keys, LogPosition, Signer
from queuegate_server.fleet.replica_log import ReplicaLease
from queuegate_server.identity.resolver import KnownUser, NoSuchUser
from queuegate_server.identity.shared import SharedAnswer

FORMAT: Final = 1
"""Values in another format are refused."""
MAX_VALUE_BYTES: Final = 256 * 1024
"""Larger values are not shared."""
CLOCK_SKEW: Final = 5.0
"""Seconds by which the wall clocks of replicas may differ."""

LOCK_SECONDS: Final = 0.1
"""How long other replicas leave a lookup to the one that has locked it."""
WAIT_SECONDS: Final = 0.05
"""How long they wait for its answer before they ask the resolver themselves."""
POLL_SECONDS: Final = 0.002
"""The first pause between two attempts to read it; each is twice as long as the one before."""


class Fence(Protocol):
    """The fleet's order of events, as far as this replica has applied it."""

    @property
    def position(self) -> LogPosition | None:
        """The newest event that was applied; None while the order is not known."""

    def accepts(self, partition: str, user: str, since: LogPosition) -> bool:
        """Return whether groups that were looked up at a position are still valid."""


class ValueUnavailable(Exception):
    """A value could not be read in time."""


class InvalidValue(Exception):
    """A value must not be used; the argument is the cause, as in the metrics."""


class ValueStore(Protocol):
    """The part of Redis that values need."""

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None. Raises ValueUnavailable."""

    async def lock(self, key: str, seconds: float) -> bool:
        """Create a key for `seconds`; return False if it exists. Raises ValueUnavailable."""

    def put(self, key: str, make: Callable[[], bytes | None], seconds: float) -> None:
        """Store a value soon; `make` returns it, or None if it is outdated by then."""


class GroupCounts:
    """Reads of shared groups since the start, by result, and refused values by cause."""

    def __init__(self) -> None:
        """Start at zero."""
        self.reads: Final = dict.fromkeys(("hit", "miss", "unavailable"), 0)
        self.refused: Final = dict.fromkeys(("mac", "format", "settings", "expired", "outdated"), 0)


class PartitionGroups:
    """The shared groups of one partition: `identity.shared.SharedGroups`."""

    def __init__(
        self,
        store: ValueStore,
        codec: "ValueCodec",
        *,
        fence: Fence,
        lease: ReplicaLease,
        counts: GroupCounts,
        clock: Callable[[], float],
    ) -> None:
        """Share nothing yet. The clock is that of the lease of all caches, in seconds."""
        self.resolver_fingerprint: Final = codec.resolver_fingerprint
        """As `SharedGroups` describes."""
        self._store = store
        self._codec = codec
        self._fence = fence
        self._lease = lease
        self._counts = counts
        self._clock = clock

    async def get(self, user: str) -> SharedAnswer | None:
        """Return an answer that is valid now; None if there is none."""
        try:
            answer = await self._find(user)
        except ValueUnavailable:
            self._counts.reads["unavailable"] += 1
            return None
        self._counts.reads["miss" if answer is None else "hit"] += 1
        return answer

    def begin(self, user: str) -> Callable[[SharedAnswer], None] | None:
        """Note the position before the resolver is asked, as `SharedGroups` describes."""
        position = self._position()
        return None if position is None else partial(self._publish, user, position)

    def _publish(self, user: str, position: LogPosition, answer: SharedAnswer) -> None:
        """Store an answer unless an event has made it outdated."""
        key = self._codec.key(user)

        def make() -> bytes | None:
            try:
                self._check_order(user, position)
            except InvalidValue:
                return None
            return self._codec.encode(key, position, answer)

        self._store.put(key, make, answer.expires_at - answer.resolved_at)

    async def _find(self, user: str) -> SharedAnswer | None:
        """Return the answer of another replica, or None to ask here. Raises ValueUnavailable."""
        if self._position() is None:
            raise ValueUnavailable
        try:
            answer = await self._read(user)
        except InvalidValue as refused:
            self._counts.refused[str(refused)] += 1
            answer = None
        position = self._position()
        if answer is not None or position is None:
            return answer
        if await self._store.lock(self._codec.lookup_lock(user, position), LOCK_SECONDS):
            return None
        return await self._await_locked(user)

    async def _await_locked(self, user: str) -> SharedAnswer | None:
        """Wait for another replica's answer; None if it is late. Raises ValueUnavailable."""
        answer, pause, left = None, POLL_SECONDS, WAIT_SECONDS
        while answer is None and left > 0:
            await asyncio.sleep(min(pause, left))
            left -= pause
            pause *= 2
            with contextlib.suppress(InvalidValue):
                answer = await self._read(user)
        return answer

    async def _read(self, user: str) -> SharedAnswer | None:
        """Return the answer in Redis, or None. Raises InvalidValue, ValueUnavailable."""
        key = self._codec.key(user)
        raw = await self._store.get(key)
        if raw is None:
            return None
        position, answer = self._codec.decode(key, raw)
        self._check_order(user, position)
        return answer

    def _position(self) -> LogPosition | None:
        # A process that was stopped for a while learns here that its lease has ended.
        self._lease.end_if_expired(self._clock())
        return self._fence.position

    def _check_order(self, user: str, position: LogPosition) -> None:
        """Raise InvalidValue if groups from a position may no longer hold."""
        partition = self._codec.partition
        if self._position() is None or not self._fence.accepts(partition, user, position):
            raise InvalidValue("outdated")


class ValueCodec:
    """Writes and reads the values of one partition."""

    def __init__(
        self,
        signer: Signer,
        keys: Keys,
        partition: str,
        resolver: str,
        wall: Callable[[], float],
    ) -> None:
        """Refuse answers of a resolver whose settings, as text, are different."""
        self.partition: Final = partition
        self._signer = signer
        self._keys = keys
        # A plain hash would let readers of Redis, and gates, test guesses at the settings.
        self.resolver_fingerprint: Final = signer.mac(b"settings", resolver.encode())
        self._wall = wall

    def key(self, user: str) -> str:
        """Return the key of a user."""
        return self._keys.user(self.partition, user)

    def lookup_lock(self, user: str, position: LogPosition) -> str:
        """Return the key that claims the lookup of a user after an event."""
        return self._keys.lookup(self.partition, user, position.sequence)

    def encode(self, key: str, position: LogPosition, answer: SharedAnswer) -> bytes | None:
        """Return the value of a key; None if it is too large to be shared."""
        outcome = answer.outcome
        fields = (
            FORMAT,
            self.resolver_fingerprint.hex(),
            position.epoch.hex(),
            position.sequence,
            position.nonce.hex(),
            answer.resolved_at,
            answer.expires_at,
            outcome.groups if isinstance(outcome, KnownUser) else outcome.detail,
        )
        content = json.dumps(fields, separators=(",", ":")).encode()
        if len(content) > MAX_VALUE_BYTES:
            return None
        return self._signer.mac(key.encode(), content) + content

    def decode(self, key: str, value: bytes) -> tuple[LogPosition, SharedAnswer]:
        """Return the position and the answer of a value. Raises InvalidValue."""
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
        return position, SharedAnswer(groups, resolved_at, expires_at)
