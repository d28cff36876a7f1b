"""The file of the audit log: whole lines or none, rotated by size, followed when moved."""

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
_LONGEST_TAIL: Final = 1_048_576
_OUR_LINE: Final = b'{"time":'
_IS_A_PIPE: Final = "is a pipe: take a file, or - for standard output"


class Target(Protocol):
    """Where lines go. All methods are called from one thread, and raise OSError."""

    failed_rotations: int
    """How often a file that was full could not be put aside."""

    def write(self, lines: bytes) -> None:
        """Write whole lines, all of them or none."""

    def sync(self) -> None:
        """Force what was written to the disk."""

    def close(self) -> None:
        """Let go of it."""


class StandardOutput:
    """Standard output. A part of a line that could be written is ended before the next one."""

    def __init__(self) -> None:
        """Write to descriptor 1, whatever becomes of `sys.stdout`."""
        sys.stdout.flush()
        self.failed_rotations = 0
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Write lines; after an error some of them may be there."""
        if self._torn:
            _write_all(1, b"\n")
        self._torn = True
        for piece in whole_lines(lines, select.PIPE_BUF):
            _write_all(1, piece)
        self._torn = False

    def sync(self) -> None:
        """Do nothing: whoever reads has it."""

    def close(self) -> None:
        """Leave it to the process."""


class AuditFile:
    """A file that this process alone writes. It is opened anew when it was moved or deleted,
    so that other programs may rotate it, too.
    """

    def __init__(self, path: Path, max_size: int, keep: int, *, syncs: bool = True) -> None:
        """Open the file, or make it, with mode 0640. `max_size` is in bytes; `keep` is how
        many rotated files (`path.1` is the newest) are kept; with `syncs` a file is forced to
        the disk before the next one is begun.

        Raises OSError, BlockingIOError if another process writes it.
        """
        self._path = path
        self._max_size = max_size
        self._keep = keep
        self._syncs = syncs
        self._torn = False
        self.failed_rotations = 0
        self._descriptor = self._open()

    def write(self, lines: bytes) -> None:
        """Write lines; after an error none of them is there."""
        self._follow()
        size = os.fstat(self._descriptor).st_size
        if size and size + len(lines) > self._max_size:
            size = self._rotate(size)
        if self._torn:
            lines = b"\n" + lines
        try:
            _write_all(self._descriptor, lines)
        except OSError:
            self._take_back(size)
            raise
        self._torn = False

    def sync(self) -> None:
        """Force what was written to the disk."""
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
            self._torn = _take(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _follow(self) -> None:
        """Open the file again unless what is open is what the path leads to."""
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
        """Close a file that will not be written any more."""
        try:
            if self._syncs:
                self.sync()
        finally:
            self.close()

    def _rotate(self, size: int) -> int:
        """Begin a new file and return its size. If that fails, the old one grows on."""
        try:
            if self._keep:
                # No further than to a free number: after a rotation that failed, that is the first.
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

    def _take_back(self, size: int) -> None:
        """Cut the file to what it was before a write that failed."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError:
            self._torn = True


def _take(descriptor: int) -> bool:
    """Make the file ours alone, and say whether it ends within a line."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode):
        # Open for reading as well, it would take records that nobody ever reads.
        raise OSError(errno.EINVAL, _IS_A_PIPE)
    if not stat.S_ISREG(mode):
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return _mend_end(descriptor)


def _mend_end(descriptor: int) -> bool:
    """Look at the last line. If it has no end, take it away if it is a record, which nobody
    was answered for; say whether it is still there.
    """
    size = os.fstat(descriptor).st_size
    start = max(0, size - _LONGEST_TAIL)
    tail = os.pread(descriptor, size - start, start)
    if not tail or tail.endswith(b"\n"):
        return False
    last = tail.rfind(b"\n") + 1
    if not tail.startswith(_OUR_LINE, last):
        return True
    os.ftruncate(descriptor, start + last)
    return False


def whole_lines(lines: bytes, most: int) -> Iterator[bytes]:
    """Split lines into pieces that a pipe takes in one go, so that those of several workers
    do not mix; a line of more bytes than that is a piece of its own.
    """
    begin = 0
    while len(lines) - begin > most:
        end = lines.rfind(b"\n", begin, begin + most) + 1 or lines.find(b"\n", begin) + 1
        if not end:
            break
        yield lines[begin:end]
        begin = end
    yield lines[begin:]


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
