"""The fleet's events and rows in Redis: the commands, and nothing that decides.

An event is appended only after the event that its writer took for the newest. So its code covers
its place, and the numbers have no holes.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from queuegate_server.fleet.connection import Script, StoreConnection, StoreUnavailable
from queuegate_server.fleet.events import (
    Change,
    Event,
    Malformed,
    Row,
    decode_event,
    decode_row,
    encode_change,
    encode_row,
    event_parts,
)
from queuegate_server.fleet.keys import EPOCH_BYTES, Keys, Position, Signer

MAX_EVENTS: Final = 100_000
"""About as many are kept in Redis."""
READ_AT_ONCE: Final = 1_000
RECENT: Final = 5_000
"""Events that a replica reads when it begins to follow, to know which shared groups still hold."""
BLOCK_SECONDS: Final = 1.0
HEARTBEAT_SECONDS: Final = 1.0
COMMAND_SECONDS: Final = 2.0
"""The time budgets."""
NONCE_BYTES: Final = 8

_STATE: Final = """
local epoch = redis.call('GET', KEYS[1]) or ''
local sequence = redis.call('GET', KEYS[2]) or '0'
local head = redis.call('GET', KEYS[3]) or ''
"""
_HEARTBEAT: Final = Script(
    _STATE
    + """
redis.call('HSET', KEYS[5], ARGV[1], ARGV[2])
return {epoch, sequence, head, redis.call('HVALS', KEYS[5])}
"""
)
_APPEND: Final = Script(
    _STATE
    + """
local appended = 0
if epoch == ARGV[1] and sequence == ARGV[2] and head == ARGV[3] then
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[8], ARGV[4] .. '-0',
    'id', ARGV[5], 'previous', head, 'event', ARGV[6], 'mac', ARGV[7])
  redis.call('SET', KEYS[2], ARGV[4])
  redis.call('SET', KEYS[3], ARGV[5])
  appended, sequence, head = 1, ARGV[4], ARGV[5]
end
return {epoch, sequence, head, redis.call('HVALS', KEYS[5]), appended}
"""
)
_BEGIN: Final = Script(
    _STATE
    + """
if epoch == ARGV[1] then
  redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
"""
)
_DROP: Final = Script(
    """
local dropped = 0
for index = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[index]) == ARGV[index + 1] then
    dropped = dropped + redis.call('HDEL', KEYS[1], ARGV[index])
  end
end
return dropped
"""
)


class Answer(NamedTuple):
    """What Redis has."""

    epoch: bytes
    """Identifies the history, if there is one."""
    head: Position | None
    """The newest event; None if there is no history, or it is damaged."""
    rows: list[Row]
    has_appended: bool = False


class Stream:
    """The fleet's keys in Redis. All methods but `rejected` raise StoreUnavailable."""

    def __init__(self, store: StoreConnection, keys: Keys, secret: bytes) -> None:
        """Use a connection, the names of keys, and the fleet's secret."""
        self._store = store
        self._keys = (keys.epoch, keys.sequence, keys.head, keys.events, keys.replicas)
        self._events = keys.events
        self._replicas = keys.replicas
        self._event_signer = Signer(secret, "event")
        self._row_signer = Signer(secret, "row")
        self.rejected = 0
        """Rows that no replica of this fleet has written."""

    async def heartbeat(self, row: Row, *, seconds: float = HEARTBEAT_SECONDS) -> Answer:
        """Write the own row; return the newest event and all rows."""
        args = (row.replica, encode_row(self._row_signer, row))
        try:
            answer = await self._store.run_script(_HEARTBEAT, self._keys, args, seconds=seconds)
        except StoreUnavailable:
            self._store.reconnect()
            raise
        return self._answer(answer)

    async def begin(self, before: bytes) -> None:
        """Begin another history in the place of one, unless somebody else has; b"" for none."""
        args = (before, os.urandom(EPOCH_BYTES))
        await self._store.run_script(_BEGIN, self._keys, args, seconds=COMMAND_SECONDS)

    async def append(self, head: Position, change: Change, nonce: bytes) -> Answer:
        """Append a change, if an event is still the newest.

        Args:
            head: The event that is taken for the newest.
            change: The change.
            nonce: Identifies the new event.
        """
        position = Position(head.epoch, head.sequence + 1, nonce)
        content = encode_change(change)
        mac = self._event_signer.mac(*event_parts(position, head.nonce, content))
        args = (
            *(head.epoch, head.sequence, head.nonce),
            *(position.sequence, nonce, content, mac, MAX_EVENTS),
        )
        return self._answer(
            await self._store.run_script(_APPEND, self._keys, args, seconds=COMMAND_SECONDS)
        )

    async def read_after(self, position: Position) -> list[Event]:
        """Wait a moment for events after one, and return them. Raises Malformed."""
        answer = await self._store.execute(
            *("XREAD", "COUNT", READ_AT_ONCE, "BLOCK", int(BLOCK_SECONDS * 1_000)),
            *("STREAMS", self._events, f"{position.sequence}-0"),
            seconds=BLOCK_SECONDS + HEARTBEAT_SECONDS,
        )
        return self._decoded(position.epoch, answer[0][1]) if answer else []

    async def recent(self, head: Position) -> list[Event]:
        """Return the newest events up to one; none if one of them is malformed."""
        answer = await self._store.execute(
            *("XREVRANGE", self._events, f"{head.sequence}-0", "-", "COUNT", RECENT),
            seconds=COMMAND_SECONDS,
        )
        try:
            return self._decoded(head.epoch, reversed(answer))
        except Malformed:
            return []

    async def drop_rows(self, rows: Iterable[Row]) -> None:
        """Remove rows of replicas that are gone, unless they have been written again."""
        args = [part for row in rows for part in (row.replica, encode_row(self._row_signer, row))]
        await self._store.run_script(_DROP, (self._replicas,), args, seconds=COMMAND_SECONDS)

    async def close(self) -> None:
        """Close the connection."""
        await self._store.close()

    def _decoded(self, epoch: bytes, entries: Iterable[Any]) -> list[Event]:
        events: list[Event] = []
        for number, flat in entries:
            sequence = int(number.split(b"-")[0])
            events.append(decode_event(self._event_signer, epoch, sequence, _pairs(flat)))
        return events

    def _answer(self, answer: Any) -> Answer:
        epoch, sequence, nonce, values, *appended = answer
        is_sound = len(epoch) == EPOCH_BYTES and sequence.isdigit()
        head = Position(epoch, int(sequence), nonce) if is_sound else None
        rows: list[Row] = []
        for value in values:
            try:
                rows.append(decode_row(self._row_signer, value))
            except Malformed:
                self.rejected += 1
        return Answer(epoch, head, rows, appended == [1])


def _pairs(flat: Any) -> Mapping[bytes, bytes]:
    """Return the fields of an entry, which the driver returns as a list or as a mapping."""
    if isinstance(flat, Mapping):
        return flat
    return dict(zip(flat[::2], flat[1::2], strict=True))
