"""Decodes replica statuses from Redis, and selects invalid statuses for removal."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from queuegate_server.fleet.events import MalformedValue, ReplicaStatus, decode_status
from queuegate_server.fleet.keys import Signer
from queuegate_server.runtime.pacing import Pace

MAX_KNOWN: Final = 500
"""The maximum number of replicas whose statuses are requested explicitly."""


class StatusReader:
    """A decoder for the statuses in Redis replies. Not thread-safe."""

    def __init__(self, signer: Signer) -> None:
        self.rejected = 0
        """The number of statuses written with another secret since the first reply."""
        self._signer = signer
        self._written: dict[str, tuple[int, bytes]] = {}
        """The serial number and encoding of each status in the newest reply, by instance."""
        self._unsigned: dict[bytes, str] | None = None
        """The SHA-1 of each invalid status in the newest reply, by field; None before any reply."""
        self._removable: dict[bytes, str] = {}

    @property
    def known(self) -> Sequence[str]:
        """The replicas whose statuses should come first if a reply cannot contain all."""
        return [*self._written][:MAX_KNOWN]

    async def read(
        self, lengths: bytes, content: bytes, *, is_complete: bool
    ) -> list[ReplicaStatus]:
        """Decode the statuses in a reply.

        `content` holds the fields and values, and `lengths` their lengths as decimal numbers.
        `is_complete` states whether the reply holds all statuses in Redis. Raises ValueError if the
        lengths do not match the content.
        """
        statuses: list[ReplicaStatus] = []
        written = {} if is_complete else dict(self._written)
        unsigned: dict[bytes, str] = {}
        pace = Pace()
        for name, value in _fields(lengths, content):
            await pace.pause_if_due()
            try:
                status = decode_status(self._signer, value)
                # Check the field, because anyone can copy a replica's status to another field.
                is_written = status.instance.encode() == name
            except MalformedValue:
                is_written = False
            if not is_written:
                unsigned[name] = _sha1(value)
            else:
                statuses.append(status)
                written.pop(status.instance, None)
                written[status.instance] = status.serial, value
        self._select_removable(unsigned, is_complete=is_complete)
        self._written = written if is_complete else dict([*written.items()][-MAX_KNOWN:])
        return statuses

    def removal(self, statuses: Iterable[ReplicaStatus]) -> Sequence[str | bytes]:
        """Return the arguments of the script that removes statuses.

        The script removes the given statuses and any invalid statuses selected in the newest reply,
        except those that have been rewritten since.
        """
        arguments: list[str | bytes] = []
        for status in statuses:
            serial, value = self._written.get(status.instance, (0, b""))
            if serial == status.serial:
                arguments += status.instance, _sha1(value)
        for field, digest in self._removable.items():
            arguments += field, digest
        self._removable = {}
        return arguments

    def _select_removable(self, unsigned: dict[bytes, str], *, is_complete: bool) -> None:
        """Count new invalid statuses, and select unchanged invalid statuses for removal.

        An invalid status that changes with each heartbeat is kept, because it was written by a
        replica configured with another secret, and both sides should report the mistake.
        """
        before = self._unsigned or {}
        if self._unsigned is not None:
            self.rejected += sum(before.get(each) != digest for each, digest in unsigned.items())
        stale = unsigned.items() & before.items() if is_complete else unsigned.items()
        self._removable = dict(stale)
        self._unsigned = unsigned


def _fields(lengths: bytes, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield a hash's fields with their values. Raises ValueError if a length is wrong."""
    numbers = [int(each) for each in lengths.split()]
    if sum(numbers) != len(content) or any(each < 0 for each in numbers):
        raise ValueError("the lengths do not match the content")
    position = 0
    for name, value in zip(numbers[::2], numbers[1::2], strict=True):
        middle = position + name
        yield content[position:middle], content[middle : middle + value]
        position = middle + value


def _sha1(value: bytes) -> str:
    # Redis scripts offer no hash but SHA-1. It suffices for telling successive values apart.
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()
