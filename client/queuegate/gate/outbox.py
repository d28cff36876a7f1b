"""Decisions on disk, until the server's audit log has them."""

import fcntl
import io
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from google.protobuf.message import DecodeError
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed

from queuegate._settings import FilePath
from queuegate.v1 import sync_pb2

MAX_BYTES: Final = 64 * 1024 * 1024
"""More decisions than these do not wait: the server is asked."""
MAX_SEGMENT_BYTES: Final = 256 * 1024
MAX_REPORTED: Final = 1_000
"""Decisions in one message."""
_SUFFIX: Final = ".decisions"
_LOCK: Final = "lock"

Segment = Path
"""A file of decisions."""


class Outbox:
    """A folder of segments, each a sequence of decisions after their length. Thread-safe.

    A decision is written before it is answered, so it is lost only with the machine or its disk.
    """

    def __init__(self, folder: FilePath) -> None:
        """Open a folder, which is created if it does not exist; decisions in it are sent first.

        Raises OSError; BlockingIOError if another gate uses the folder.
        """
        self._folder: Final = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._owner: IO[bytes] = (self._folder / _LOCK).open("wb")
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._owner.close()
            raise
        sealed = sorted(self._folder.glob(f"*{_SUFFIX}"), key=_number)
        self._sealed: list[Path] = sealed
        self._size = sum(path.stat().st_size for path in sealed)
        self._next = _number(sealed[-1]) + 1 if sealed else 1
        self._segment: IO[bytes] | None = None
        self._segment_size = 0

    def append(self, decision: sync_pb2.LocalDecision) -> bool:
        """Write a decision; return False if it cannot be kept."""
        buffer = io.BytesIO()
        serialize_length_prefixed(decision, buffer)
        record = buffer.getvalue()
        with self._lock:
            if self._owner.closed or self._size + len(record) > MAX_BYTES:
                return False
            try:
                if self._segment is None:
                    self._segment = self._path(self._next).open("xb", buffering=0)
                written = self._segment.write(record)
            except OSError:
                written = 0
            if written != len(record):
                self._seal()  # a part of a record is the end of its segment
                return False
            self._size += len(record)
            self._segment_size += len(record)
            if self._segment_size >= MAX_SEGMENT_BYTES:
                self._seal()
            return True

    def oldest(self) -> tuple[Segment, list[list[sync_pb2.LocalDecision]]] | None:
        """Return the oldest segment and its decisions, in groups to be reported; None if nothing
        waits.
        """
        with self._lock:
            if not self._sealed:
                self._seal()
            if not self._sealed:
                return None
            segment = self._sealed[0]
        decisions = [*_decisions(segment.read_bytes())]
        groups = [
            decisions[start : start + MAX_REPORTED]
            for start in range(0, len(decisions), MAX_REPORTED)
        ]
        return segment, groups

    def remove(self, segment: Segment) -> None:
        """Remove the oldest segment: the audit log has its decisions."""
        with self._lock:
            self._sealed.remove(segment)
            self._size -= segment.stat().st_size
            segment.unlink()

    def close(self) -> None:
        """Keep what waits for the next gate that uses the folder."""
        with self._lock:
            self._seal()
            self._owner.close()

    def _seal(self) -> None:
        """End the current segment."""
        if self._segment is not None:
            self._segment.close()
            self._sealed.append(self._path(self._next))
            self._segment, self._segment_size = None, 0
            self._next += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020}{_SUFFIX}"


def _number(segment: Path) -> int:
    return int(segment.stem)


def _decisions(data: bytes) -> Iterator[sync_pb2.LocalDecision]:
    """Yield the decisions of a segment, up to one that was not written completely."""
    source = io.BytesIO(data)
    with suppress(DecodeError, EOFError, ValueError):
        while (each := parse_length_prefixed(sync_pb2.LocalDecision, source)) is not None:
            yield each
