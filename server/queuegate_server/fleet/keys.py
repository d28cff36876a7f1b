"""Names of the fleet's keys in Redis, and MACs that only replicas can compute.

Access to Redis must not be enough to forge groups or events, so each value carries an HMAC-SHA-256
of its content and context, under a key derived from the fleet's secret.
"""

import hmac
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from queuegate.v1 import cursor_pb2

MAC_BYTES: Final = 32
EPOCH_BYTES: Final = 16
NONCE_BYTES: Final = 8


class LogPosition(NamedTuple):
    """A position in the fleet's event log."""

    epoch: bytes
    """Identifies the history; changes when events are lost."""
    sequence: int
    """The number of the event at this position."""
    nonce: bytes
    """The nonce of the event. The number alone could also belong to a lost event."""

    @classmethod
    def of_cursor(cls, epoch: bytes, sequence: int) -> "LogPosition":
        """Return the position identified by a cursor's epoch and sequence."""
        return cls(epoch[:EPOCH_BYTES], sequence, epoch[EPOCH_BYTES:])

    @property
    def cursor(self) -> cursor_pb2.Cursor:
        """The position in the form sent to callers. The cursor's epoch includes the nonce."""
        return cursor_pb2.Cursor(epoch=self.epoch + self.nonce, sequence=self.sequence)


class Keys:
    """Redis key names. They share a hash tag because all of a script's keys must be on one node."""

    def __init__(self, prefix: str) -> None:
        self.tag: Final = "{" + prefix + "}"
        self.epoch: Final = f"{self.tag}:epoch"
        self.sequence: Final = f"{self.tag}:seq"
        self.head: Final = f"{self.tag}:head"
        """The nonce of the newest event."""
        self.events: Final = f"{self.tag}:events"
        self.replicas: Final = f"{self.tag}:replicas"
        self.turn: Final = f"{self.tag}:turn"
        """The writer that has the next turn to append an event; expires quickly."""
        event = self.epoch, self.sequence, self.head, self.events
        self.state: Final = (*event, self.replicas, self.turn)
        """The keys of the fleet's state, in the order in which scripts take them."""
        self.absent: Final = f"{self.tag}:absent"
        """A key that never exists, used to probe commands."""

    def user(self, partition: str, user: str) -> str:
        """Return the key of a user's groups."""
        return f"{self.tag}:user:{quote(partition, safe='')}:{user}"

    def source(self, name: bytes) -> tuple[str, str]:
        """Return the keys of the lease on a source, and of the position in its changes."""
        return f"{self.tag}:source:{name.hex()}:lease", f"{self.tag}:source:{name.hex()}:position"

    def lookup(self, partition: str, user: str, sequence: int) -> str:
        """Return the key of the lock for looking up a user's groups after event `sequence`."""
        return f"{self.tag}:lookup:{sequence}:{quote(partition, safe='')}:{user}"


class Signer:
    """Computes and verifies MACs for one type of value."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        """Derive a purpose-specific key from the fleet's secret."""
        self._key = hmac.digest(secret, f"queuegate fleet 1: {purpose}".encode(), "sha256")

    def mac(self, *parts: bytes) -> bytes:
        """Return the MAC of the parts in the given order."""
        return hmac.digest(self._key, frame(parts), "sha256")

    def is_valid(self, mac: bytes, *parts: bytes) -> bool:
        """Return whether a MAC is valid for the given parts."""
        return hmac.compare_digest(mac, self.mac(*parts))


def frame(parts: Sequence[bytes]) -> bytes:
    """Concatenate parts unambiguously, each prefixed with its length."""
    return b"".join(len(part).to_bytes(8) + part for part in parts)
