"""Runs the Redis commands that `FleetSession` requests for fleet events and statuses.

An event is appended only if its writer knows the newest event, so the MAC can cover the event's
position, and event numbers have no gaps. A writer that finds a newer event gets the next turn, so
replicas close to Redis cannot starve a distant replica. If an outsider has added an entry with a
higher number, Redis rejects new events, so the script starts a new history.
"""

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from queuegate_server.fleet import scripts
from queuegate_server.fleet.connection import Script, StoreConnection, StoreUnavailable
from queuegate_server.fleet.events import (
    Change,
    Event,
    LogState,
    MalformedValue,
    ReplicaStatus,
    decode_event,
    encode_change,
    encode_status,
    event_parts,
)
from queuegate_server.fleet.keys import EPOCH_BYTES, NONCE_BYTES, Keys, LogPosition, Signer
from queuegate_server.fleet.statuses import StatusReader
from queuegate_server.runtime.pacing import Pace

MAX_EVENTS: Final = 5_000
"""The approximate number of events that Redis keeps."""
READ_AT_ONCE: Final = 64
MAX_RECENT_BYTES: Final = 512 * 1024
"""The maximum size of the newest events that a joining replica reads to validate shared groups."""
RECENT_SECONDS: Final = 0.5
"""The time limit in seconds for reading the newest events, well below the duration of a lease."""
MAX_PAGE: Final = 250
MAX_PAGE_BYTES: Final = 256 * 1024
TURN_SECONDS: Final = 0.2
"""How long other writers wait for the writer with the next turn, in seconds."""
MAX_SOURCE_BYTES: Final = 32 * 1024
"""The maximum size of the position in a source's changes."""
BLOCK_SECONDS: Final = 1.0
HEARTBEAT_BUDGET: Final = 1.0
"""The timeout of a heartbeat, in seconds."""
COMMAND_BUDGET: Final = 2.0
"""The timeout of other non-blocking commands, in seconds."""


class Stream:
    """Reads and writes the fleet's keys in Redis. All coroutines raise StoreUnavailable."""

    def __init__(self, store: StoreConnection, keys: Keys, secret: bytes) -> None:
        self._store = store
        self._keys = keys
        self._event_signer = Signer(secret, "event")
        self._status_signer = Signer(secret, "status")
        self.statuses: Final = StatusReader(self._status_signer)

    async def heartbeat(
        self, status: ReplicaStatus, *, seconds: float = HEARTBEAT_BUDGET
    ) -> LogState:
        """Write this replica's status; return the newest event and all statuses."""
        args = (status.instance, encode_status(self._status_signer, status))
        try:
            return await self._query(scripts.HEARTBEAT, args, seconds)
        except StoreUnavailable:
            self._store.reconnect()
            raise

    async def begin(self, before: bytes) -> bytes:
        """Start a new history to replace the one with epoch `before` (empty if there is none).

        Returns the new history's epoch. Has no effect if another replica has already replaced the
        old history.
        """
        epoch, keys = os.urandom(EPOCH_BYTES), self._keys.state
        await self._store.run_script(scripts.BEGIN, keys, (before, epoch), seconds=COMMAND_BUDGET)
        return epoch

    async def append(self, head: LogPosition, change: Change, nonce: bytes) -> LogState:
        """Append a change if `head` is the newest event and no other writer has the next turn.

        Retries must use the same nonce, because it identifies the event and its writer.
        """
        position = LogPosition(head.epoch, head.sequence + 1, nonce)
        content = encode_change(change)
        mac = self._event_signer.mac(*event_parts(position, head.nonce, content))
        args = (
            head.epoch,
            head.sequence,
            head.nonce,
            position.sequence,
            nonce,
            content,
            mac,
            MAX_EVENTS,
            int(TURN_SECONDS * 1_000),
            os.urandom(EPOCH_BYTES),
        )
        return await self._query(scripts.APPEND, args, COMMAND_BUDGET)

    async def hold_source(
        self,
        name: bytes,
        instance: bytes,
        position: bytes,
        *,
        seconds: float,
        position_seconds: float,
        release: bool = False,
    ) -> bytes | None:
        """Take, renew or release the lease on a source; return None if another replica has it.

        Stores `position` unless it is empty. Returns the stored position, at most
        `MAX_SOURCE_BYTES` long; empty if there is none.
        """
        milliseconds = int(seconds * 1_000), int(position_seconds * 1_000)
        reply: bytes | None = await self._store.run_script(
            scripts.HOLD_SOURCE,
            self._keys.source(name),
            (instance, position, *milliseconds, MAX_SOURCE_BYTES, int(release)),
            seconds=COMMAND_BUDGET,
        )
        return reply

    async def read_after(self, position: LogPosition) -> list[Event]:
        """Return events after a position. If there are none, wait briefly for one.

        Raises MalformedValue.
        """
        after = f"{position.sequence}-0"
        entries = await self._entries("XRANGE", f"({after}", "+", READ_AT_ONCE)
        if not entries:
            # The size of a blocking read cannot be bounded, so read only one entry. If it is
            # oversized, the connection rejects it, and `_entries` returns it on the next call.
            reply = await self._store.execute(
                "XREAD",
                "COUNT",
                1,
                "BLOCK",
                int(BLOCK_SECONDS * 1_000),
                "STREAMS",
                self._keys.events,
                after,
                seconds=BLOCK_SECONDS + HEARTBEAT_BUDGET,
            )
            entries = reply[0][1] if reply else []
        return await self._decode(position.epoch, entries)

    async def recent(self, head: LogPosition) -> list[Event]:
        """Return the newest events up to the head, oldest first.

        Reading stops at a malformed event, after RECENT_SECONDS or after about MAX_RECENT_BYTES.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + RECENT_SECONDS
        newest_first: list[Event] = []
        last, count, left = head.sequence, READ_AT_ONCE, MAX_RECENT_BYTES
        while left > 0 and clock() < until:
            page = await self._entries("XREVRANGE", f"{last}-0", "-", count)
            try:
                newest_first += await self._decode(head.epoch, page)
            except MalformedValue:
                break
            if not page:
                break
            left -= sum(_size(entry) for entry in page)
            last = newest_first[-1].position.sequence - 1
            count = MAX_PAGE
        return newest_first[::-1]

    async def remove_replicas(self, statuses: Iterable[ReplicaStatus]) -> None:
        """Remove the given statuses, and unchanged ones not written by this fleet's replicas."""
        if args := self.statuses.removal(statuses):
            keys = (self._keys.replicas,)
            await self._store.run_script(scripts.REMOVE, keys, args, seconds=COMMAND_BUDGET)

    async def probe(self) -> Mapping[str, str]:
        """Try commands that heartbeats do not use; return each command's error, or "" if none."""
        # Use EVAL to test it as well, because other loaded scripts are run by their hash.
        reply = await self._store.execute(
            "EVAL", scripts.PROBE.text, 1, self._keys.absent, seconds=HEARTBEAT_BUDGET
        )
        try:
            errors = [error.decode(errors="replace") for error in reply]
            return dict(zip(scripts.PROBED_COMMANDS, errors, strict=True))
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreUnavailable("a script returned an unexpected reply") from error

    async def close(self) -> None:
        """Close the connection."""
        await self._store.close()

    async def _query(
        self, script: Script, args: Sequence[str | bytes | float], seconds: float
    ) -> LogState:
        """Run a script that returns the fleet's state. Known replicas' statuses come first."""
        args, before = (*args, *self.statuses.known), time.time()
        reply = await self._store.run_script(script, self._keys.state, args, seconds=seconds)
        after = time.time()
        try:
            return await self._state(reply, before, after)
        except (ValueError, TypeError) as error:
            raise StoreUnavailable("a script returned an unexpected reply") from error

    async def _entries(self, command: str, first: str, last: str, count: int) -> Sequence[Any]:
        """Read up to MAX_PAGE_BYTES of entries, or a single entry if it is larger."""
        args = (command, first, last, count, MAX_PAGE_BYTES)
        entries: Sequence[Any] = await self._store.run_script(
            scripts.READ_EVENTS, (self._keys.events,), args, seconds=COMMAND_BUDGET
        )
        return entries

    async def _decode(self, epoch: bytes, entries: Iterable[Any]) -> list[Event]:
        events: list[Event] = []
        pace = Pace()
        for entry in entries:
            await pace.pause_if_due()
            number, flat = entry
            sequence, sub = map(int, number.split(b"-"))
            events.append(decode_event(self._event_signer, epoch, (sequence, sub), _pairs(flat)))
        return events

    async def _state(self, reply: Any, before: float, after: float) -> LogState:
        """Decode a script's reply. Raises ValueError or TypeError if it is malformed."""
        epoch, sequence, nonce, time_of_redis, complete, lengths, content, *appended = reply
        is_sound = (
            len(epoch) == EPOCH_BYTES
            and len(nonce) <= NONCE_BYTES
            and len(sequence) <= scripts.MAX_SEQUENCE_DIGITS
            and sequence.isdigit()
            and (int(sequence) > 0) == (nonce != b"")
        )
        head = LogPosition(epoch, int(sequence), nonce) if is_sound else None
        seconds, micros = map(int, time_of_redis)
        redis_wall = seconds + micros / 1e6
        is_complete = complete == 1
        return LogState(
            epoch,
            head,
            await self.statuses.read(lengths, content, is_complete=is_complete),
            appended == [1],
            is_complete,
            (before - redis_wall, after - redis_wall),
        )


def _size(entry: Any) -> int:
    """Return the size of the encoded change in a stream entry."""
    return len(_pairs(entry[1]).get(b"event", b""))


def _pairs(flat: Any) -> Mapping[bytes, bytes]:
    """Return an entry's fields as a mapping; some commands return them as a flat list."""
    if isinstance(flat, Mapping):
        return flat
    return dict(zip(flat[::2], flat[1::2], strict=True))
