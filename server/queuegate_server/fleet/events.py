"""Encodes fleet events and replica statuses for Redis.

Each value is authenticated with a MAC under a key that only replicas have. An event's MAC also
covers its position in the log, so an outsider cannot move, replace or omit an event.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from queuegate_server.fleet.keys import MAC_BYTES, LogPosition, Signer
from queuegate_server.fleet.view import QueueDecisions
from queuegate_server.sync.barrier import StaleGate
from queuegate_server.sync.change_log import MAX_INVALIDATED
from queuegate_server.sync.connected import MAX_LISTED, ConnectedGate, GateCounts

MAX_STATUS_BYTES: Final = 64 * 1024
MAX_SCHEDULERS: Final = 20
"""The maximum number of schedulers in a status."""
MAX_ADDRESSES: Final = 20
"""The maximum number of addresses in a status."""
MAX_NAMES_BYTES: Final = 16 * 1024
"""The maximum size of the names in an event. Beyond it, the event covers the whole partition."""


Clock = tuple[float, float]
"""Bounds in seconds on how far a replica's wall clock is ahead of Redis's."""
EntryId = tuple[int, int]
"""The ID of a stream entry. Replicas use the event's number, followed by 0."""


class MalformedValue(Exception):
    """A value was not written by a replica of this fleet, or cannot be read."""


class MalformedEntry(MalformedValue):
    """A stream entry was not written by a replica of this fleet, or cannot be read."""

    def __init__(self, entry_id: EntryId, fault: str) -> None:
        """Create an error about an entry. `fault` is a predicate, such as `cannot be read`."""
        super().__init__(f"the entry {entry_id[0]}-{entry_id[1]} of the events {fault}")
        self.entry_id: Final = entry_id


class Change(NamedTuple):
    """A change that all replicas must apply.

    A replica that does not support this kind of change rejoins the fleet instead, which invalidates
    all groups and reloads the policy.
    """

    kind: Literal["invalidate", "reload"]
    partition: str = ""
    users: frozenset[str] = frozenset()
    """The users whose groups are invalid; empty for the whole partition."""
    is_awaited: bool = False
    """Whether replicas must confirm that none of their gates uses pre-change state."""

    @property
    def is_reload(self) -> bool:
        """Whether the change reloads the policy rather than invalidating groups."""
        return self.kind == "reload"

    @classmethod
    def invalidate(cls, partition: str, users: Collection[str], *, is_awaited: bool) -> "Change":
        """Return a change that invalidates the given users or, if too many, the whole partition."""
        named = frozenset(users)
        size = sum(len(name.encode()) for name in named)
        if len(named) > MAX_INVALIDATED or size > MAX_NAMES_BYTES:
            named = frozenset()
        return cls("invalidate", partition, named, is_awaited)


class Event(NamedTuple):
    """A change with its position in the log."""

    position: LogPosition
    previous: bytes
    """The nonce of the preceding event."""
    change: Change


def encode_change(change: Change) -> bytes:
    """Encode a change for Redis."""
    value = change._asdict() | {"users": sorted(change.users)}
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def event_parts(position: LogPosition, previous: bytes, content: bytes) -> Sequence[bytes]:
    """Return the parts of an event that its MAC covers."""
    return (position.epoch, b"%d" % position.sequence, position.nonce, previous, content)


def decode_event(
    signer: Signer, epoch: bytes, entry_id: EntryId, fields: Mapping[bytes, bytes]
) -> Event:
    """Decode a stream entry. Raises MalformedEntry."""
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
    """The state of the fleet in Redis."""

    epoch: bytes
    """Identifies the history; empty if there is none."""
    head: LogPosition | None
    """The newest event; None if there is no history or it is damaged."""
    statuses: "Sequence[ReplicaStatus]"
    has_appended: bool = False
    is_complete: bool = True
    """Whether `statuses` covers all replicas; False if an outsider has written too many."""
    clock: Clock | None = None


@dataclass(frozen=True)
class ReplicaStatus:
    """A replica's report about itself, sent with each heartbeat."""

    instance: str
    """Identifies the process."""
    name: str
    serial: int
    """A number that increases with each status."""
    version: str = ""
    role: str = ""
    """What the process is: `webhook`, or empty for a server."""
    epoch: str = ""
    """The epoch of the followed history, in hexadecimal; empty if none."""
    epoch_age: float = 0.0
    """A lower bound on the age of this history, in seconds."""
    sequence: int = 0
    """The number of the newest applied event."""
    confirmed_through: tuple[int, str] | None = None
    """The number and hexadecimal nonce of the event up to which all changes are confirmed."""
    confirmed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The nonces of confirmed changes, each with the gates whose leases had to expire first."""
    stale: Mapping[str, Sequence[StaleGate]] = field(default_factory=dict)
    """The nonces of confirmed changes, each with the gates that may still use the old state."""
    failed: Sequence[str] = field(default_factory=list)
    """The nonces of changes that could not be applied because the policy file was invalid."""
    revision: int = 0
    checksum: str = ""
    """The checksum of the policy; empty if none is loaded."""
    gates: int = 0
    connected_gates: Sequence[ConnectedGate] = field(default_factory=list)
    """Some of the connected gates."""
    stale_seconds: float = 0.0
    """How long a gate may decide from its last state if the replica and all leases end now."""
    clock: Clock | None = None
    problem: str = ""
    """Sentences about the commands that Redis refuses."""
    queue_decisions: Sequence[QueueDecisions] = field(default_factory=list)
    """The decisions of a webhook by scheduler; empty for a server."""
    http_addresses: Sequence[str] = field(default_factory=list)
    """The addresses on which a server listens over HTTP."""
    is_starting: bool = False
    has_left: bool = False
    """Whether the replica has stopped and its lease and its gates' leases have ended."""


_STATUS_FIELDS: Final = frozenset(ReplicaStatus.__dataclass_fields__)


def encode_status(signer: Signer, status: ReplicaStatus) -> bytes:
    """Encode a status for Redis."""
    content = json.dumps(vars(status), separators=(",", ":")).encode()
    return signer.mac(content) + content


def decode_status(signer: Signer, data: bytes) -> ReplicaStatus:
    """Decode a status. Raises MalformedValue."""
    mac, content = data[:MAC_BYTES], data[MAC_BYTES:]
    if len(data) > MAX_STATUS_BYTES or not signer.is_valid(mac, content):
        raise MalformedValue("a status was not written by a replica of this fleet")
    try:
        written: dict[str, Any] = json.loads(content)
        # Ignore unknown fields, which newer versions may write.
        known = {name: value for name, value in written.items() if name in _STATUS_FIELDS}
        if through := known.get("confirmed_through"):
            known["confirmed_through"] = (through[0], through[1])
        if clock := known.get("clock"):
            known["clock"] = (float(clock[0]), float(clock[1]))
        if rows := known.get("queue_decisions"):
            known["queue_decisions"] = [*map(_decode_decisions, rows[:MAX_SCHEDULERS])]
        if addresses := known.get("http_addresses"):
            known["http_addresses"] = [*map(str, addresses[:MAX_ADDRESSES])]
        if stale := known.get("stale"):
            known["stale"] = {nonce: [*map(_decode_stale, rows)] for nonce, rows in stale.items()}
        if gates := known.get("connected_gates"):
            known["connected_gates"] = [*map(_decode_gate, gates[:MAX_LISTED])]
        return ReplicaStatus(**known)
    except (ValueError, TypeError, LookupError) as error:
        raise MalformedValue(f"a status cannot be read: {error}") from error


def _decode_stale(row: Sequence[Any]) -> StaleGate:
    return StaleGate(str(row[0]), float(row[1]))


def _decode_gate(row: Sequence[Any]) -> ConnectedGate:
    """Decode a gate, without columns that newer versions may append."""
    name, caller, agent, stale_millis, counts = row[: len(ConnectedGate._fields)]
    if counts is not None:
        decided, stale, fallbacks = counts[: len(GateCounts._fields)]
        counts = GateCounts(int(decided), int(stale), None if fallbacks is None else int(fallbacks))
    return ConnectedGate(str(name), str(caller), str(agent), int(stale_millis), counts)


def _decode_decisions(row: Sequence[Any]) -> QueueDecisions:
    """Decode a row of decisions, without columns that newer versions may append."""
    scheduler, mode, *counts = row[: len(QueueDecisions._fields)]
    if any(count < 0 for count in counts):
        raise ValueError("a count is negative")
    return QueueDecisions(str(scheduler), str(mode), *map(int, counts))
