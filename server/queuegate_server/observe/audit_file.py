"""The audit log file, with atomic writes and size-based rotation."""

import errno
import fcntl
import logging
import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

_LOG = logging.getLogger("queuegate_server.audit")

_MODE: Final = 0o640
_IS_A_PIPE: Final = "is a pipe: use a file, or - for standard output"
MAX_LINE_BYTES: Final = 1_048_576
"""The maximum length of a line. Every record fits."""
_RECORD_START: Final = b'{"time":'


class Target(Protocol):
    """A destination for audit lines. Methods may raise OSError; all are called from one thread."""

    failed_rotations: int

    def write(self, lines: bytes) -> None:
        """Write newline-terminated lines."""

    def sync(self) -> None:
        """Force written lines to disk."""

    def close(self) -> None:
        """Close the target."""


class StandardOutput:
    """An audit log on standard output. After a failed write, the next one starts a new line."""

    def __init__(self) -> None:
        """Flush `sys.stdout`, because records are written directly to descriptor 1."""
        sys.stdout.flush()
        self.failed_rotations = 0
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Write lines. After an error, some of them may have been written."""
        if self._torn:
            _write_all(1, b"\n")
        self._torn = True
        for piece in split_lines(lines, select.PIPE_BUF):
            _write_all(1, piece)
        self._torn = False

    def sync(self) -> None:
        """Do nothing, because standard output cannot be synced."""

    def close(self) -> None:
        """Do nothing, because standard output belongs to the process."""


class AuditFile:
    """An audit log in an exclusively locked file, which is reopened if moved or deleted."""

    def __init__(self, path: Path, max_size: int, keep: int, *, syncs: bool = True) -> None:
        """Open the file, creating it with mode 0640 if necessary.

        Args:
            path: The file.
            max_size: The size at which the file is rotated, in bytes.
            keep: The number of rotated files to keep; `path.1` is the newest.
            syncs: Whether to sync the file to disk before it is rotated or reopened.

        Raises:
            BlockingIOError: Another process has locked the file.
            OSError: The file cannot be opened.
        """
        self._path = path
        self._max_size = max_size
        self._keep = keep
        self._syncs = syncs
        self._torn = False
        self.failed_rotations = 0
        self._descriptor = self._open()

    def write(self, lines: bytes) -> None:
        """Write lines. On failure, truncate the file so that none of them remain."""
        self._reopen_if_moved()
        size = os.fstat(self._descriptor).st_size
        if size and size + len(lines) > self._max_size:
            size = self._rotate(size)
        if self._torn:
            lines = b"\n" + lines
        try:
            _write_all(self._descriptor, lines)
        except OSError:
            self._truncate(size)
            raise
        self._torn = False

    def sync(self) -> None:
        """Force written lines to disk."""
        if self._descriptor >= 0 and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        descriptor = os.open(self._path, flags, _MODE)
        try:
            self._torn = _lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _reopen_if_moved(self) -> None:
        if self._descriptor >= 0:
            try:
                there = self._path.stat()
            except FileNotFoundError:
                pass
            else:
                if os.path.samestat(there, os.fstat(self._descriptor)):
                    return
            self._finish()
        self._descriptor = self._open()

    def _finish(self) -> None:
        """Close the current file, syncing it first if configured."""
        try:
            if self._syncs:
                self.sync()
        finally:
            self.close()

    def _rotate(self, size: int) -> int:
        """Rotate the files; return the current file's size. On failure, keep the old file."""
        try:
            if self._keep:
                # Renumber only the files before the first gap. A failed rotation may leave a gap.
                numbers = range(1, self._keep)
                free = next((n for n in numbers if not self._numbered(n).exists()), self._keep)
                for number in range(free - 1, 0, -1):
                    self._numbered(number).replace(self._numbered(number + 1))
                self._path.replace(self._numbered(1))
            else:
                self._path.unlink()
        except OSError as error:
            if not self.failed_rotations:
                _LOG.error("the audit log cannot be rotated", extra={"reason": str(error)})
            self.failed_rotations += 1
            return size
        self._finish()
        self._descriptor = self._open()
        return 0

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _truncate(self, size: int) -> None:
        """Truncate the file to `size`, its size before a failed write."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            self._torn = True


def _lock(descriptor: int) -> bool:
    """Lock the file and repair its end; return whether it still ends with an incomplete line."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode):
        # A pipe opened for reading and writing accepts records even if nobody reads them.
        raise OSError(errno.EINVAL, _IS_A_PIPE)
    if not stat.S_ISREG(mode):
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return _remove_torn_record(descriptor)


def _remove_torn_record(descriptor: int) -> bool:
    """Remove a record that a crash left incomplete at the end of the file.

    Return whether the file still ends with an incomplete line.
    """
    size = os.fstat(descriptor).st_size
    start = max(0, size - MAX_LINE_BYTES)
    tail = os.pread(descriptor, size - start, start)
    if not tail or tail.endswith(b"\n"):
        return False
    last = tail.rfind(b"\n") + 1
    if not tail[last:].startswith(_RECORD_START[: len(tail) - last]):
        return True
    os.ftruncate(descriptor, start + last)
    return False


def split_lines(lines: bytes, max_bytes: int) -> Iterator[bytes]:
    """Split data at newlines into pieces of up to `max_bytes`. A longer line gets its own piece."""
    begin = 0
    while len(lines) - begin > max_bytes:
        end = lines.rfind(b"\n", begin, begin + max_bytes) + 1 or lines.find(b"\n", begin) + 1
        if not end:
            break
        yield lines[begin:end]
        begin = end
    yield lines[begin:]


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
