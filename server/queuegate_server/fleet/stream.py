"""The fleet's events and statuses in Redis: the commands, and nothing that decides.

An event is appended only after the event that its writer took for the newest. So its MAC covers its
place, and the numbers have no holes. A writer that finds another event in that place gets the next
turn, so that replicas near Redis do not keep out one that is far away. If somebody else has added
an entry with a higher number, Redis accepts no event any more: another history begins.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from queuegate_server.fleet.connection import Script, StoreConnection, StoreUnavailable
from queuegate_server.fleet.events import (
    Change,
    Event,
    Malformed,
    ReplicaStatus,
    decode_event,
    decode_status,
    encode_change,
    encode_status,
    event_parts,
)
from queuegate_server.fleet.keys import EPOCH_BYTES, Keys, LogPosition, Signer

MAX_EVENTS: Final = 5_000
"""The approximate number of events that Redis keeps."""
READ_AT_ONCE: Final = 64
MAX_RECENT_BYTES: Final = 512 * 1024
"""The size of the newest events, which a joining replica reads to judge shared groups."""
RECENT_SECONDS: Final = 0.5
"""How long it may take to read them: a part of a lease."""
MAX_PAGE: Final = 250
STEP_BYTES: Final = 64 * 1024
"""The size of the events that are decoded between two pauses, in which calls are answered."""
PAUSE_SECONDS: Final = 0.001
TURN_SECONDS: Final = 0.2
"""For how long others append nothing while the writer whose turn it is has not."""
BLOCK_SECONDS: Final = 1.0
HEARTBEAT_BUDGET: Final = 1.0
"""Seconds for a heartbeat."""
COMMAND_BUDGET: Final = 2.0
"""Seconds for any other command that does not block."""
NONCE_BYTES: Final = 8
MAX_SEQUENCE_DIGITS: Final = 18
"""Of the number of an event, which must fit into 64 bits."""

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
local turn = redis.call('GET', KEYS[6])
local left = redis.call('PTTL', KEYS[6])
if turn == ARGV[5] or left < 0 or left > tonumber(ARGV[9]) then
  turn = false
end
if turn then
  appended = 0
elseif epoch == ARGV[1] and sequence == ARGV[2] and head == ARGV[3] then
  local added = redis.pcall('XADD', KEYS[4], 'MAXLEN', '~', ARGV[8], ARGV[4] .. '-0',
    'id', ARGV[5], 'previous', head, 'event', ARGV[6], 'mac', ARGV[7])
  redis.call('DEL', KEYS[6])
  if type(added) ~= 'table' then
    redis.call('SET', KEYS[2], ARGV[4])
    redis.call('SET', KEYS[3], ARGV[5])
    appended, sequence, head = 1, ARGV[4], ARGV[5]
  elseif string.find(added.err, 'equal or smaller', 1, true) then
    redis.call('DEL', KEYS[2], KEYS[3], KEYS[4])
    redis.call('SET', KEYS[1], ARGV[10])
    epoch, sequence, head = ARGV[10], '0', ''
  else
    return added
  end
elseif epoch == ARGV[1] then
  redis.call('SET', KEYS[6], ARGV[5], 'PX', ARGV[9])
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


class LogState(NamedTuple):
    """What Redis has."""

    epoch: bytes
    """Identifies the history; empty if there is none."""
    head: LogPosition | None
    """The newest event; None if there is no history, or it is damaged."""
    statuses: list[ReplicaStatus]
    has_appended: bool = False


class Stream:
    """The fleet's keys in Redis. All methods but `rejected` raise StoreUnavailable."""

    def __init__(self, store: StoreConnection, keys: Keys, secret: bytes) -> None:
        """Use a connection, the names of keys, and the fleet's secret."""
        self._store = store
        self._keys = (
            *(keys.epoch, keys.sequence, keys.head, keys.events, keys.replicas),
            keys.turn,
        )
        self._events = keys.events
        self._replicas = keys.replicas
        self._event_signer = Signer(secret, "event")
        self._status_signer = Signer(secret, "status")
        self._written: dict[str, tuple[int, bytes]] = {}
        """The statuses in the newest answer as they were written, and their numbers."""
        self._rejected: set[bytes] | None = None
        """The values in the newest answer that no replica of this fleet has written."""
        self.rejected = 0
        """How many of them have been written since the first answer."""

    async def heartbeat(
        self, status: ReplicaStatus, *, seconds: float = HEARTBEAT_BUDGET
    ) -> LogState:
        """Write the own status; return the newest event and all statuses."""
        args = (status.instance, encode_status(self._status_signer, status))
        try:
            answer = await self._store.run_script(_HEARTBEAT, self._keys, args, seconds=seconds)
        except StoreUnavailable:
            self._store.reconnect()
            raise
        return self._answer(answer)

    async def begin(self, before: bytes) -> None:
        """Begin another history in the place of one, unless somebody else has; b"" for none."""
        args = (before, os.urandom(EPOCH_BYTES))
        await self._store.run_script(_BEGIN, self._keys, args, seconds=COMMAND_BUDGET)

    async def append(self, head: LogPosition, change: Change, nonce: bytes) -> LogState:
        """Append a change, if an event is still the newest, and no other writer has the next turn.

        Args:
            head: The event that is taken for the newest.
            change: The change.
            nonce: Identifies the new event, and its writer in the turns: try again with the same.
        """
        position = LogPosition(head.epoch, head.sequence + 1, nonce)
        content = encode_change(change)
        mac = self._event_signer.mac(*event_parts(position, head.nonce, content))
        args = (
            *(head.epoch, head.sequence, head.nonce),
            *(position.sequence, nonce, content, mac, MAX_EVENTS),
            *(int(TURN_SECONDS * 1_000), os.urandom(EPOCH_BYTES)),
        )
        return self._answer(
            await self._store.run_script(_APPEND, self._keys, args, seconds=COMMAND_BUDGET)
        )

    async def read_after(self, position: LogPosition) -> list[Event]:
        """Wait a moment for events after one, and return them. Raises Malformed."""
        answer = await self._store.execute(
            *("XREAD", "COUNT", READ_AT_ONCE, "BLOCK", int(BLOCK_SECONDS * 1_000)),
            *("STREAMS", self._events, f"{position.sequence}-0"),
            seconds=BLOCK_SECONDS + HEARTBEAT_BUDGET,
        )
        return await self._decoded(position.epoch, answer[0][1]) if answer else []

    async def recent(self, head: LogPosition) -> list[Event]:
        """Return the newest events up to one: as many as can be read in time, about
        MAX_RECENT_BYTES at most, and none from before a malformed one.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + RECENT_SECONDS
        newest_first: list[Event] = []
        last, count, size = head.sequence, READ_AT_ONCE, 0
        while size < MAX_RECENT_BYTES and clock() < until:
            page = await self._store.execute(
                *("XREVRANGE", self._events, f"{last}-0", "-", "COUNT", count),
                seconds=COMMAND_BUDGET,
            )
            try:
                newest_first += await self._decoded(head.epoch, page)
            except Malformed:
                break
            if len(page) < count:
                break
            size += sum(_size(entry) for entry in page)
            last = newest_first[-1].position.sequence - 1
            average = size // len(newest_first) + 1
            count = max(1, min(MAX_PAGE, (MAX_RECENT_BYTES - size) // average))
        return newest_first[::-1]

    async def remove_replicas(self, statuses: Iterable[ReplicaStatus]) -> None:
        """Remove statuses that the newest answer had, unless they have been written again."""
        args: list[str | bytes] = []
        for status in statuses:
            serial, written = self._written.get(status.instance, (0, b""))
            if serial == status.serial:
                args += [status.instance, written]
        await self._store.run_script(_DROP, (self._replicas,), args, seconds=COMMAND_BUDGET)

    async def close(self) -> None:
        """Close the connection."""
        await self._store.close()

    async def _decoded(self, epoch: bytes, entries: Iterable[Any]) -> list[Event]:
        events: list[Event] = []
        size = 0
        for entry in entries:
            if (size := size + _size(entry)) > STEP_BYTES:
                size = 0
                await asyncio.sleep(PAUSE_SECONDS)
            number, flat = entry
            sequence, sub = map(int, number.split(b"-"))
            events.append(decode_event(self._event_signer, epoch, (sequence, sub), _pairs(flat)))
        return events

    def _answer(self, answer: Any) -> LogState:
        epoch, sequence, nonce, values, *appended = answer
        is_sound = (
            len(epoch) == EPOCH_BYTES
            and len(nonce) <= NONCE_BYTES
            and len(sequence) <= MAX_SEQUENCE_DIGITS
            and sequence.isdigit()
        )
        head = LogPosition(epoch, int(sequence), nonce) if is_sound else None
        statuses: list[ReplicaStatus] = []
        self._written.clear()
        rejected: set[bytes] = set()
        for value in values:
            try:
                status = decode_status(self._status_signer, value)
            except Malformed:
                rejected.add(value)
            else:
                statuses.append(status)
                self._written[status.instance] = (status.serial, value)
        if self._rejected is not None:
            self.rejected += len(rejected - self._rejected)
        self._rejected = rejected
        return LogState(epoch, head, statuses, appended == [1])


def _size(entry: Any) -> int:
    """Return the length of the change in an entry of the stream."""
    return len(_pairs(entry[1]).get(b"event", b""))


def _pairs(flat: Any) -> Mapping[bytes, bytes]:
    """Return the fields of an entry, which the driver returns as a list or as a mapping."""
    if isinstance(flat, Mapping):
        return flat
    return dict(zip(flat[::2], flat[1::2], strict=True))
