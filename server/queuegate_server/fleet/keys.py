"""The names of the fleet's keys in Redis, and the MACs that only replicas can compute.

Access to Redis must not be enough to write groups or events: each value carries an
HMAC-SHA-256 over its key's name and its content, under a key made from the fleet's secret.
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
    """A point in the fleet's order of events."""

    epoch: bytes
    """Identifies the history; changes after events were lost."""
    sequence: int
    """The number of the newest event that was applied."""
    nonce: bytes
    """The nonce of that event: a number alone might stand for another event that was lost."""

    @classmethod
    def of_cursor(cls, epoch: bytes, sequence: int) -> "LogPosition":
        """Return the point that a cursor names."""
        return cls(epoch[:EPOCH_BYTES], sequence, epoch[EPOCH_BYTES:])

    @property
    def cursor(self) -> cursor_pb2.Cursor:
        """The point as callers know it. The epoch of the cursor also names the event."""
        return cursor_pb2.Cursor(epoch=self.epoch + self.nonce, sequence=self.sequence)


class Keys:
    """The names of keys. All share one hash tag: a script runs on one node of a cluster."""

    def __init__(self, prefix: str) -> None:
        """Name the keys of a fleet."""
        self.tag: Final = "{" + prefix + "}"
        self.epoch: Final = f"{self.tag}:epoch"
        self.sequence: Final = f"{self.tag}:seq"
        self.head: Final = f"{self.tag}:head"
        """The nonce of the newest event."""
        self.events: Final = f"{self.tag}:events"
        self.replicas: Final = f"{self.tag}:replicas"
        self.turn: Final = f"{self.tag}:turn"
        """Names, for a moment, the writer that appends the next event."""
        event = self.epoch, self.sequence, self.head, self.events
        self.state: Final = (*event, self.replicas, self.turn)
        """The keys of the state, in the order in which scripts take them."""
        self.absent: Final = f"{self.tag}:absent"
        """A key that never exists, on which commands are tried."""

    def user(self, partition: str, user: str) -> str:
        """Return the key of a user's groups."""
        return f"{self.tag}:user:{quote(partition, safe='')}:{user}"

    def lookup(self, partition: str, user: str, sequence: int) -> str:
        """Return the key that a replica sets while it looks a user up, after a number of events."""
        return f"{self.tag}:lookup:{sequence}:{quote(partition, safe='')}:{user}"


class Signer:
    """Computes and verifies the MACs of one kind of value."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        """Derive a key from the fleet's secret that is used for one kind of value only."""
        self._key = hmac.digest(secret, f"queuegate fleet 1: {purpose}".encode(), "sha256")

    def mac(self, *parts: bytes) -> bytes:
        """Return the MAC of these parts in this order."""
        return hmac.digest(self._key, framed(parts), "sha256")

    def is_valid(self, mac: bytes, *parts: bytes) -> bool:
        """Return whether a MAC is valid for these parts."""
        return hmac.compare_digest(mac, self.mac(*parts))


def framed(parts: Sequence[bytes]) -> bytes:
    """Return parts as one unambiguous text: each preceded by its length."""
    return b"".join(len(part).to_bytes(8) + part for part in parts)
