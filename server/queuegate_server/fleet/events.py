"""The events of a fleet and the statuses of its replicas, as they are written to Redis.

Each carries a MAC under a key that only replicas have. An event's MAC also covers its place in the
order, so that nobody else can move, replace or omit an event.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple

from queuegate_server.fleet.keys import MAC_BYTES, LogPosition, Signer
from queuegate_server.sync.change_log import MAX_INVALIDATED

MAX_STATUS_BYTES: Final = 64 * 1024
MAX_NAMES_BYTES: Final = 16 * 1024
"""The maximum size of all names in one event. More names count as all users of the partition."""


EntryId = tuple[int, int]
"""The number of an event, and 0. Entries with other ids were written by others."""


class MalformedValue(Exception):
    """A value is not one that a replica of this fleet has written."""


class MalformedEntry(MalformedValue):
    """An entry of the stream is not an event that a replica of this fleet has written."""

    def __init__(self, entry_id: EntryId, fault: str) -> None:
        """Name the entry by its id; the fault is the rest of a sentence about it."""
        super().__init__(f"the entry {entry_id[0]}-{entry_id[1]} of the events {fault}")
        self.entry_id: Final = entry_id


class Change(NamedTuple):
    """Something that all replicas must do. A replica that does not know the kind joins again, and
    so invalidates all groups and reads its policy.
    """

    kind: Literal["invalidate", "reload"]
    partition: str = ""
    users: frozenset[str] = frozenset()
    """The users whose groups are invalid; empty for all of the partition."""
    is_awaited: bool = False
    """Whether replicas must confirm that none of their gates decides from the state before."""

    @property
    def is_reload(self) -> bool:
        """Whether the policy must be read again; otherwise, groups are invalid."""
        return self.kind == "reload"

    @classmethod
    def invalidate(cls, partition: str, users: Collection[str], *, is_awaited: bool) -> "Change":
        """Return the invalidation of these users, or of all users if too many are named."""
        named = frozenset(users)
        size = sum(len(name.encode()) for name in named)
        if len(named) > MAX_INVALIDATED or size > MAX_NAMES_BYTES:
            named = frozenset()
        return cls("invalidate", partition, named, is_awaited)


class Event(NamedTuple):
    """A change at its place in the order."""

    position: LogPosition
    previous: bytes
    """The nonce of the event before it."""
    change: Change


def encode_change(change: Change) -> bytes:
    """Return a change as it is written."""
    value = change._asdict() | {"users": sorted(change.users)}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event_parts(position: LogPosition, previous: bytes, content: bytes) -> Sequence[bytes]:
    """Return all that the MAC of an event covers."""
    return (position.epoch, b"%d" % position.sequence, position.nonce, previous, content)


def decode_event(
    signer: Signer, epoch: bytes, entry_id: EntryId, fields: Mapping[bytes, bytes]
) -> Event:
    """Return an entry of the stream as an event. Raises MalformedEntry."""
    sequence, sub = entry_id
    try:
        position = LogPosition(epoch, sequence, fields[b"id"])
        previous, content = fields[b"previous"], fields[b"event"]
        if sub or not signer.is_valid(fields[b"mac"], *event_parts(position, previous, content)):
            raise MalformedEntry(entry_id, "was not written by a replica of this fleet")
        value = json.loads(content)
        change = Change(**value | {"users": frozenset(value["users"])})
        if change.kind not in ("invalidate", "reload"):
            raise MalformedEntry(entry_id, "has a type that this version does not support")
    except (KeyError, ValueError, TypeError) as error:
        raise MalformedEntry(entry_id, "cannot be read") from error
    return Event(position, previous, change)


class LogState(NamedTuple):
    """What Redis has."""

    epoch: bytes
    """Identifies the history; empty if there is none."""
    head: LogPosition | None
    """The newest event; None if there is no history, or it is damaged."""
    statuses: "Sequence[ReplicaStatus]"
    has_appended: bool = False
    is_complete: bool = True
    """Whether it has the statuses of all replicas; False if somebody else has written too many."""
    clock: tuple[float, float] | None = None
    """See `ReplicaStatus`."""


@dataclass(frozen=True)
class ReplicaStatus:
    """What a replica reports about itself with each heartbeat."""

    instance: str
    """Identifies the process."""
    name: str
    serial: int
    """The number of this status: later ones have higher numbers."""
    version: str = ""
    epoch: str = ""
    """The history that it follows, in hexadecimal, or empty."""
    epoch_age: float = 0.0
    """The minimum number of seconds for which this history has existed."""
    sequence: int = 0
    """The number of the newest event that it has applied."""
    confirmed_through: tuple[int, str] | None = None
    """The number of an event and its nonce in hexadecimal: all changes up to it are confirmed."""
    confirmed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The nonces of confirmed changes, each with the gates that were waited out."""
    failed: Sequence[str] = field(default_factory=list)
    """The nonces of changes that it could not carry out: its policy file is not valid."""
    revision: int = 0
    checksum: str = ""
    """The checksum of its policy; empty while it has none."""
    gates: int = 0
    clock: tuple[float, float] | None = None
    """The minimum and maximum seconds by which its wall clock is ahead of Redis's."""
    problem: str = ""
    """What Redis refuses to do for it, as a sentence."""
    is_starting: bool = False
    has_left: bool = False
    """Whether it has stopped, and neither it nor any of its gates has a lease left."""


_STATUS_FIELDS: Final = frozenset(ReplicaStatus.__dataclass_fields__)


def encode_status(signer: Signer, status: ReplicaStatus) -> bytes:
    """Return a status as it is written."""
    content = json.dumps(asdict(status), separators=(",", ":")).encode()
    return signer.mac(content) + content


def decode_status(signer: Signer, data: bytes) -> ReplicaStatus:
    """Return a status that was read. Raises MalformedValue."""
    mac, content = data[:MAC_BYTES], data[MAC_BYTES:]
    if len(data) > MAX_STATUS_BYTES or not signer.is_valid(mac, content):
        raise MalformedValue("a status was not written by a replica of this fleet")
    try:
        written: dict[str, Any] = json.loads(content)
        # A later version may write more fields.
        known = {name: value for name, value in written.items() if name in _STATUS_FIELDS}
        if through := known.get("confirmed_through"):
            known["confirmed_through"] = (through[0], through[1])
        if clock := known.get("clock"):
            known["clock"] = (float(clock[0]), float(clock[1]))
        return ReplicaStatus(**known)
    except (ValueError, TypeError, LookupError) as error:
        raise MalformedValue(f"a status cannot be read: {error}") from error
