"""The statuses of replicas as Redis returns them: decodes those that replicas have written, and
remembers what to remove.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from queuegate_server.fleet.events import MalformedValue, ReplicaStatus, decode_status
from queuegate_server.fleet.keys import Signer

STEP_STATUSES: Final = 50
"""The number of statuses decoded between two pauses, in which calls are answered."""
STEP_BYTES: Final = 64 * 1024
PAUSE_SECONDS: Final = 0.001
MAX_KNOWN: Final = 500
"""The maximum number of replicas whose statuses are requested first."""


class StatusReader:
    """Decodes the statuses in answers. Used from one event loop."""

    def __init__(self, signer: Signer) -> None:
        """Verify statuses with a signer."""
        self.rejected = 0
        """How many statuses have been written with another secret since the first answer."""
        self._signer = signer
        self._written: dict[str, tuple[int, bytes]] = {}
        """The statuses in the newest answer as they were written, and their numbers."""
        self._unsigned: dict[bytes, str] | None = None
        """The fields in the newest answer that no replica has written, and the SHA-1 of each."""
        self._removable: dict[bytes, str] = {}

    @property
    def known(self) -> Sequence[str]:
        """The replicas to return first, in case one answer does not have all statuses."""
        return [*self._written][:MAX_KNOWN]

    async def read(
        self, lengths: bytes, content: bytes, *, is_complete: bool
    ) -> list[ReplicaStatus]:
        """Return the statuses in an answer, which is complete if it has all that Redis has. The
        content consists of the fields and values, whose lengths are in decimal digits. Raises
        ValueError.
        """
        statuses: list[ReplicaStatus] = []
        written = {} if is_complete else dict(self._written)
        unsigned: dict[bytes, str] = {}
        count = size = 0
        for name, value in _fields(lengths, content):
            count, size = count + 1, size + len(value)
            if count > STEP_STATUSES or size > STEP_BYTES:
                count = size = 0
                await asyncio.sleep(PAUSE_SECONDS)
            try:
                status = decode_status(self._signer, value)
                # Anyone may copy the status of a replica into other fields.
                is_written = status.instance.encode() == name
            except MalformedValue:
                is_written = False
            if not is_written:
                unsigned[name] = _sha1(value)
            else:
                statuses.append(status)
                written.pop(status.instance, None)
                written[status.instance] = status.serial, value
        self._take_in(unsigned, is_complete=is_complete)
        self._written = written if is_complete else dict([*written.items()][-MAX_KNOWN:])
        return statuses

    def removal(self, statuses: Iterable[ReplicaStatus]) -> Sequence[str | bytes]:
        """Return the arguments that remove these statuses, unless they were written again, and some
        that no replica has written.
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

    def _take_in(self, unsigned: dict[bytes, str], *, is_complete: bool) -> None:
        """Count the statuses that no replica has written, and choose which to remove. Statuses of
        replicas that have another secret by mistake change with each heartbeat and are left alone,
        so that both sides can name the mistake.
        """
        before = self._unsigned or {}
        if self._unsigned is not None:
            self.rejected += sum(before.get(each) != digest for each, digest in unsigned.items())
        stale = unsigned.items() & before.items() if is_complete else unsigned.items()
        self._removable = dict(stale)
        self._unsigned = unsigned


def _fields(lengths: bytes, content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields and values of a hash. Raises ValueError."""
    numbers = [int(each) for each in lengths.split()]
    if sum(numbers) != len(content) or any(each < 0 for each in numbers):
        raise ValueError("the lengths do not match the content")
    position = 0
    for name, value in zip(numbers[::2], numbers[1::2], strict=True):
        middle = position + name
        yield content[position:middle], content[middle : middle + value]
        position = middle + value


def _sha1(value: bytes) -> str:
    # Redis offers no other hash, and this one only has to tell a value from a later one.
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()
