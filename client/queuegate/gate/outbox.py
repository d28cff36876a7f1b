"""Decisions stored on disk until they are in the server's audit log."""

import errno
import fcntl
import io
import logging
import os
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from google.protobuf.message import DecodeError
from google.protobuf.proto import parse_length_prefixed, serialize_length_prefixed

from queuegate._settings import FilePath
from queuegate.gate.checks import text_to_log
from queuegate.v1 import sync_pb2

MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum total size of the folder's files. Once it is reached, checks are sent to the
server.
"""
MAX_SEGMENT_BYTES: Final = 256 * 1024
MAX_SECONDS: Final = 253_402_300_799
"""The latest time in a valid decision, in Unix seconds: the end of the year 9999."""
_NANOS: Final = 1_000_000_000
_SUFFIX: Final = ".decisions"
_DAMAGED: Final = ".damaged"
_REJECTED: Final = "rejected"
_LOCK: Final = "lock"
_WHOLE_FILE: Final = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""A lock on ranges, the only kind that gates in Java use (struct flock in fcntl(2))."""
_LOG: Final = logging.getLogger("queuegate.gate")


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """Counts of the decisions handled by an outbox since the gate was created."""

    waiting_bytes: int
    """The total size of the files in the outbox."""
    confirmed: int
    """The number of decisions written to the server's audit log."""
    not_kept: int
    """The number of decisions that did not fit in the outbox or could not be written. The checks
    were sent to the server instead.
    """
    rejected: int
    """The number of decisions rejected by the server. They are kept in the `rejected` file."""
    damaged: int
    """The number of files that could not be read completely. They get the suffix `.damaged` once
    their readable decisions have been reported.
    """


class Segment(NamedTuple):
    """A file of length-prefixed decisions."""

    path: Path
    size: int


class Outbox:
    """A folder of segments, which contain decisions to be reported. Thread-safe.

    A decision is written before the caller receives it, so it is lost only if the machine or disk
    fails.
    """

    def __init__(self, folder: FilePath) -> None:
        """Open a folder, creating it if missing. Decisions left there by an earlier gate are
        reported first.

        Raises:
            OSError: The folder cannot be used.
            BlockingIOError: Another gate is using the folder.
        """
        self._folder: Final = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.confirmed = 0
        """See OutboxCounts."""
        self._not_kept = self._rejected = self._damaged = 0
        self._fault = ""
        """Why decisions cannot be stored; empty if they can."""
        self._lock = threading.Lock()
        self._segment: IO[bytes] | None = None
        self._segment_size = 0
        self._owner: IO[bytes] = (self._folder / _LOCK).open("wb", buffering=0)
        try:
            self._take_folder()
            paths = [*self._folder.iterdir()]
            self._size = sum(path.stat().st_size for path in paths)
            numbered = sorted((int(path.stem), path) for path in paths if path.stem.isdecimal())
            self._next = numbered[-1][0] + 1 if numbered else 1
            self._sealed = [
                Segment(path, path.stat().st_size) for _, path in numbered if path.suffix == _SUFFIX
            ]
            self._unreadable: set[Path] = set()
        except BaseException:
            self._owner.close()
            raise

    @property
    def counts(self) -> OutboxCounts:
        """The current counts."""
        return OutboxCounts(
            self._size, self.confirmed, self._not_kept, self._rejected, self._damaged
        )

    def append(self, decision: sync_pb2.LocalDecision) -> bool:
        """Write a decision, and return whether it was stored."""
        record = _record(decision)
        with self._lock:
            if self._owner.closed:
                return False
            if self._size + len(record) > MAX_BYTES:
                fault = f"{self._size} bytes are waiting; the limit is {MAX_BYTES}"
            else:
                fault = self._write(record)
            if fault:
                self._not_kept += 1
            if fault != self._fault:
                self._fault = fault
                message = "the outbox %s cannot store decisions; checks go to the server: %s"
                if fault:
                    _LOG.warning(message, self._folder, fault)
                else:
                    _LOG.warning("the outbox %s stores decisions again", self._folder)
            return not fault

    def oldest(self) -> tuple[Segment, list[sync_pb2.LocalDecision]] | None:
        """Return the oldest segment and its decisions, or None if no decisions are waiting."""
        while True:
            with self._lock:
                if not self._sealed:
                    self._seal()
                if not self._sealed:
                    return None
                segment = self._sealed[0]
            try:
                decisions, fault = _decisions(segment.path.read_bytes())
            except OSError as error:
                decisions, fault = [], str(error)
            if fault:
                self._damaged += 1
                self._unreadable.add(segment.path)
                message = "%s is damaged; %d of its decisions are readable: %s"
                _LOG.error(message, segment.path, len(decisions), fault)
            if decisions:
                return segment, decisions
            self.remove(segment)

    def remove(self, segment: Segment) -> None:
        """Remove the oldest segment after its decisions have been reported. A damaged segment is
        renamed and kept for inspection.
        """
        path = segment.path
        with self._lock:
            self._sealed.remove(segment)
            try:
                if path in self._unreadable:
                    path.rename(path.with_suffix(_DAMAGED))
                else:
                    path.unlink()
                    self._size -= segment.size
            except FileNotFoundError:
                self._size -= segment.size
            except OSError:
                _LOG.exception("cannot remove %s; the next gate will report it again", path)

    def reject(self, decisions: Sequence[sync_pb2.LocalDecision], why: str) -> None:
        """Store decisions rejected by the server in the `rejected` file. `why` describes the first
        decision's fault.

        The decisions are logged together, since a server may reject a thousand at once.
        """
        path = self._folder / _REJECTED
        records = b"".join(map(_record, decisions))
        message = "the server rejected %d decisions, which are now in %s; the first: %s: %s"
        _LOG.error(message, len(decisions), path, text_to_log(why), text_to_log(str(decisions[0])))
        with self._lock:
            self._rejected += len(decisions)
            try:
                with path.open("ab") as file:
                    file.write(records)
            except OSError:
                for each in decisions:
                    _LOG.exception("a rejected decision is recorded only in this log: %s", each)
            else:
                self._size += len(records)

    def close(self) -> None:
        """Release the folder, leaving unreported decisions to the next gate that uses it."""
        with self._lock:
            self._seal()
            self._owner.close()

    def abandon(self) -> None:
        """Leave the folder to the parent process after a fork. Takes no lock, because another
        thread may have held the lock at the time of the fork.
        """
        for file in (self._owner, self._segment):
            if file is not None:
                with suppress(OSError):
                    file.close()

    def _take_folder(self) -> None:
        try:
            fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if sys.platform == "linux":  # elsewhere, both kinds of locks conflict
                fcntl.fcntl(self._owner, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except BlockingIOError:
            message = "another gate uses this outbox: give each gate a folder of its own"
            raise BlockingIOError(errno.EAGAIN, message, str(self._folder)) from None

    def _write(self, record: bytes) -> str:
        """Write a record. Return an error message, or "" if the record was written."""
        try:
            if self._segment is None:
                path = self._path(self._next)
                self._segment = path.open("xb", buffering=0)
            written = self._segment.write(record)
        except OSError as error:
            written, fault = 0, str(error)
            if isinstance(error, FileExistsError):
                self._next += 1
        else:
            fault = "" if written == len(record) else os.strerror(errno.ENOSPC)
        if fault:
            self._drop_partial_record()
            return fault
        self._size += written
        self._segment_size += written
        if self._segment_size >= MAX_SEGMENT_BYTES:
            self._seal()
        return ""

    def _drop_partial_record(self) -> None:
        if self._segment is None:
            return
        try:
            self._segment.truncate(self._segment_size)
            self._segment.seek(self._segment_size)
        except OSError:
            self._seal()  # nothing may follow a partial record

    def _seal(self) -> None:
        """Close the current segment if it contains decisions."""
        if self._segment is not None and self._segment_size:
            self._segment.close()
            self._sealed.append(Segment(self._path(self._next), self._segment_size))
            self._segment, self._segment_size = None, 0
            self._next += 1

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020}{_SUFFIX}"


def _record(decision: sync_pb2.LocalDecision) -> bytes:
    buffer = io.BytesIO()
    serialize_length_prefixed(decision, buffer)
    return buffer.getvalue()


def _decisions(data: bytes) -> tuple[list[sync_pb2.LocalDecision], str]:
    """Parse a segment. Return the decisions before the first fault, and an error message; "" if
    there is no fault.
    """
    source = io.BytesIO(data)
    decisions: list[sync_pb2.LocalDecision] = []
    while True:
        start = source.tell()
        try:
            each = parse_length_prefixed(sync_pb2.LocalDecision, source)
        except (DecodeError, EOFError, ValueError):
            return decisions, f"there is no complete decision at byte {start}"
        if each is None:
            return decisions, ""
        if not _is_possible(each):
            return decisions, f"there is no decision at byte {start}"
        decisions.append(each)


def _is_possible(decision: sync_pb2.LocalDecision) -> bool:
    """Return whether a gate could have written this decision. After a machine crash, a file may
    contain garbage, such as zeros.
    """
    time = decision.time
    return bool(
        decision.user
        and decision.queue
        and decision.decision.reason
        and 0 <= time.seconds <= MAX_SECONDS
        and 0 <= time.nanos < _NANOS
    )
