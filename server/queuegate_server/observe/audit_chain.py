"""The hash chain of the audit log: each record names the hash of the one before it.

A record ends with three keys: `sequence`, which counts from 1; `previous`, the `hash` of the record
before it (of the first record: zeros); and `hash`, the SHA-256, in hexadecimal, of the bytes of the
line before `,"hash":`. A record that was changed, removed, inserted or moved breaks the chain,
unless all records after it were rewritten or removed, too. To see that takes a hash that was kept
elsewhere.
"""

import hashlib
import re
from collections.abc import Container
from typing import BinaryIO, Final, NamedTuple

MAX_LINE_BYTES: Final = 1_048_576
"""More than any record has."""
_RECORD_START: Final = b'{"time":'
_END: Final = re.compile(
    rb',"sequence":([1-9][0-9]{0,17}),"previous":"([0-9a-f]{64})"(,"hash":"([0-9a-f]{64})"})'
)


class Link(NamedTuple):
    """The sequence number and the hash of a record, which the next record continues."""

    sequence: int
    hash: bytes


START: Final = Link(0, b"0" * 64)
"""The link before the first record of a chain."""


class ChainBroken(Exception):
    """A line breaks the chain; the message says how."""

    def __init__(self, file: str, line: int, fault: str) -> None:
        """Break the chain at a line of a file, counted from 1."""
        super().__init__(fault)
        self.file = file
        self.line = line


class _Record(NamedTuple):
    link: Link
    previous: bytes
    is_unchanged: bool
    """Whether the hash is that of the content."""


def begins_a_record(line: bytes) -> bool:
    """Return whether a line may be a record, or the beginning of one."""
    return line.startswith(_RECORD_START[: len(line)])


def chained(lines: bytes, last: Link) -> tuple[bytes, Link]:
    """Return complete records as links of a chain, and the last of them.

    Args:
        lines: One JSON object a line, not empty.
        last: The link that they continue.
    """
    sequence, previous = last
    links: list[bytes] = []
    for line in lines[:-1].split(b"\n"):
        sequence += 1
        content = b'%b,"sequence":%d,"previous":"%b"' % (line[:-1], sequence, previous)
        previous = _hash(content)
        links.append(b'%b,"hash":"%b"}\n' % (content, previous))
    return b"".join(links), Link(sequence, previous)


def link_of(line: bytes) -> Link | None:
    """Return the link that a line is; None if it is none, or was changed."""
    record = _parse(line)
    return record.link if record and record.is_unchanged else None


class ChainVerifier:
    """Follows the chain of one audit log through its files."""

    def __init__(self, watched: Container[bytes] = ()) -> None:
        """Begin before the first record; `seen` will have the watched hashes of the chain."""
        self.first = 0
        """The sequence of the first record; 0 before there is one."""
        self.last = START
        self.seen: set[bytes] = set()
        self.is_torn = False
        """Whether the log ends in the beginning of a record, as a write or a crash leaves it."""
        self._watched = watched

    def read(self, file: str, stream: BinaryIO, *, is_newest: bool) -> None:
        """Follow the chain through a file; files are read from the oldest to the newest.

        Raises ChainBroken with the name of the file, and OSError.
        """
        number = 0
        while line := stream.readline(MAX_LINE_BYTES):
            number += 1
            if is_newest and _is_torn(line):
                self.is_torn = True
                return
            if fault := self._follow(_parse(line)):
                raise ChainBroken(file, number, fault)

    def _follow(self, record: _Record | None) -> str:
        """Take the next record, or return how it breaks the chain."""
        if record is None:
            return "not a record of a hash chain"
        link, previous, is_unchanged = record
        expected = self.last.sequence + 1
        if not is_unchanged:
            return f"record {link.sequence} was changed: its hash is not that of its content"
        if self.first or link.sequence == 1:
            if link.sequence > expected:
                return f"the records from {expected} to {link.sequence - 1} are missing before it"
            if link.sequence < expected:
                return f"record {link.sequence} comes after record {self.last.sequence}"
            if previous != self.last.hash:
                return f"record {link.sequence} does not continue the one before it"
        for each in (previous, link.hash):
            if each in self._watched:
                self.seen.add(each)
        self.first = self.first or link.sequence
        self.last = link
        return ""


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _parse(line: bytes) -> _Record | None:
    end = _END.search(line)
    if end is None or line[end.end() :] != b"\n" or not line.startswith(_RECORD_START):
        return None
    sequence, previous, _, own = end.groups()
    return _Record(Link(int(sequence), own), previous, _hash(line[: end.start(3)]) == own)


def _is_torn(line: bytes) -> bool:
    """Return whether a line is the beginning of a record, at most all but its line feed."""
    if line.endswith(b"\n") or not begins_a_record(line) or len(line) == MAX_LINE_BYTES:
        return False
    end = _END.search(line)
    return end is None or end.end() == len(line)
