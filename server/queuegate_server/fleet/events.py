"""The events of a fleet and the rows of its replicas, as they are written to Redis.

Each carries the code of a key that only replicas have, over everything that it says: an event also
over its place in the order, so that whoever writes to Redis cannot move, replace or leave out one.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

from queuegate_server.fleet.keys import MAC_BYTES, Position, Signer
from queuegate_server.sync.event_log import MAX_FORGOTTEN

MAX_ROW_BYTES: Final = 64 * 1024


class Malformed(Exception):
    """A value is not one that a replica of this fleet has written."""


class Change(NamedTuple):
    """Something that all replicas must do."""

    kind: Literal["forget", "reload"]
    """Forget groups, or read the policy again."""
    partition: str = ""
    users: frozenset[str] = frozenset()
    """The users to forget; empty for all of the partition."""
    is_awaited: bool = False
    """Whether the replicas must confirm that no gate of theirs decides from the state before."""

    @classmethod
    def forget(cls, partition: str, users: Collection[str], *, is_awaited: bool) -> "Change":
        """Return that groups must be forgotten; those of all users if too many are named."""
        named = frozenset(users) if len(users) <= MAX_FORGOTTEN else frozenset[str]()
        return cls("forget", partition, named, is_awaited)


class Event(NamedTuple):
    """A change at its place in the order."""

    position: Position
    previous: bytes
    """The nonce of the event before it."""
    change: Change


def encode_change(change: Change) -> bytes:
    """Return a change as it is written."""
    value = change._asdict() | {"users": sorted(change.users)}
    return json.dumps(value, separators=(",", ":")).encode()


def event_parts(position: Position, previous: bytes, content: bytes) -> Sequence[bytes]:
    """Return all that the code of an event covers."""
    return (position.epoch, b"%d" % position.sequence, position.nonce, previous, content)


def decode_event(
    signer: Signer, epoch: bytes, sequence: int, fields: Mapping[bytes, bytes]
) -> Event:
    """Return an entry of the stream as an event. Raises Malformed."""
    try:
        position = Position(epoch, sequence, fields[b"id"])
        previous, content = fields[b"previous"], fields[b"event"]
        if not signer.is_valid(fields[b"mac"], *event_parts(position, previous, content)):
            raise Malformed("an event was not written by a replica of this fleet")
        value = json.loads(content)
        change = Change(**value | {"users": frozenset(value["users"])})
    except (KeyError, ValueError, TypeError) as error:
        raise Malformed(f"an event cannot be read: {type(error).__name__}") from error
    return Event(position, previous, change)


@dataclass(frozen=True)
class Row:
    """What a replica reports about itself with each heartbeat."""

    replica: str
    """Identifies the process, at random."""
    name: str
    count: int
    """How many rows it has written: a later one has a higher number."""
    version: str = ""
    epoch: str = ""
    """The history that it follows, in hexadecimal; empty while it follows none."""
    age: float = 0.0
    """For how many seconds at least there has been this history."""
    sequence: int = 0
    """The number of the newest event that it has applied."""
    settled: int | None = None
    """When it began to follow, or began again, it had forgotten everything by this event, and so
    had its gates; None while they may not have."""
    confirmed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The nonces of changes that neither it nor any of its gates decides without, each with the
    gates that were waited out."""
    refused: Sequence[str] = field(default_factory=list)
    """The nonces of those that it could not carry out: its policy file is not valid."""
    revision: int = 0
    checksum: str = ""
    """Of its policy; empty while it has none."""
    gates: int = 0
    has_left: bool = False
    """Whether this is its last row: it has stopped, and no lease of it or of a gate is left."""


def encode_row(signer: Signer, row: Row) -> bytes:
    """Return a row as it is written."""
    content = json.dumps(asdict(row), separators=(",", ":")).encode()
    return signer.mac(content) + content


def decode_row(signer: Signer, data: bytes) -> Row:
    """Return a row that was read. Raises Malformed."""
    mac, content = data[:MAC_BYTES], data[MAC_BYTES:]
    if len(data) > MAX_ROW_BYTES or not signer.is_valid(mac, content):
        raise Malformed("a row was not written by a replica of this fleet")
    try:
        fields: dict[str, Any] = json.loads(content)
        return Row(**fields)
    except (ValueError, TypeError) as error:
        raise Malformed(f"a row cannot be read: {error}") from error
