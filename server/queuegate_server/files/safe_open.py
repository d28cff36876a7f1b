"""Opens regular files but not pipes, which could block. Warns about loose file permissions."""

import contextlib
import errno
import gzip
import io
import logging
import os
import stat
import zlib
from pathlib import Path
from typing import IO, BinaryIO, Final

PUBLICLY_WRITABLE: Final = stat.S_IWOTH
PUBLIC: Final = stat.S_IROTH | stat.S_IWOTH
_LOG = logging.getLogger("queuegate_server.files")
_STEP_BYTES: Final = 256 * 1024
_CHECK_RIGHTS: Final = "let this process's user read the file and enter its folders"
_REMEDIES: Final = {
    errno.EISDIR: "name a file in it",
    errno.EACCES: _CHECK_RIGHTS,
    errno.EPERM: _CHECK_RIGHTS,
}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, following links. Raises OSError.

    Pipes are rejected, because opening one can block until it has a writer.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # the file is a socket
            raise OSError(None, "not a regular file", str(path)) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(None, "not a regular file", str(path))


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return a regular file's contents, truncated to `max_bytes` + 1 bytes. Raises OSError."""
    with open_regular(path) as opened:
        return read_at_most(opened, max_bytes)


def file_status(path: Path) -> tuple[int, ...]:
    """Return numbers that identify a file's or folder's current version, following links."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_at_most(stream: IO[bytes] | io.BufferedIOBase, max_bytes: int) -> bytes:
    """Return the rest of the stream, truncated to `max_bytes` + 1 bytes.

    The extra byte shows that the limit was exceeded. Data is read in steps because `read` allocates
    the requested size up front.
    """
    content = bytearray()
    while part := stream.read(min(_STEP_BYTES, max_bytes + 1 - len(content))):
        content += part
    return bytes(content)


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """Decompress data in gzip format; truncate the result to `max_bytes` + 1 bytes.

    Raises EOFError or ValueError. Their messages are predicates, such as `is truncated`.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return read_at_most(stream, max_bytes)
    except EOFError:
        raise EOFError("is truncated") from None
    except (gzip.BadGzipFile, zlib.error):
        raise ValueError("is not in gzip format") from None


def remedy(error: OSError) -> str:
    """Return a remedy for an error raised when opening or reading a file."""
    if str(error.filename) == "-":
        return "name a file: standard input is not read here"
    return _REMEDIES.get(error.errno or 0, "check the path")


def warn_of_mode(path: Path, forbidden: int) -> None:
    """Log a warning if the file's mode includes any of the `forbidden` bits."""
    with contextlib.suppress(OSError):
        if path.stat().st_mode & forbidden:
            _LOG.warning(
                "any account on this machine can read or change %s: remove the permission "
                "(chmod o-rw)",
                path,
                extra={"file": str(path)},
            )
