"""Opens regular files only, so that a pipe in their place blocks nothing."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_CHECK_PATH: Final = "check the path"
_CHECK_RIGHTS: Final = "let the user of this process read the file and enter its folders"
_REMEDIES: Final = {
    errno.ENOENT: _CHECK_PATH,
    errno.ENOTDIR: _CHECK_PATH,
    errno.EISDIR: "name a file in it",
    errno.EACCES: _CHECK_RIGHTS,
    errno.EPERM: _CHECK_RIGHTS,
}


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; links are followed.

    Raises OSError, also for anything but a regular file: opening a pipe would block until
    somebody writes to it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
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
    """Return the content of a file; of a larger one, one byte more than `max_bytes`.

    Raises OSError, also for anything but a regular file.
    """
    with open_regular(path) as opened:
        return opened.read(max_bytes + 1)


def remedy(error: OSError) -> str:
    """Return the remedy for an error of reading a file."""
    return _REMEDIES.get(error.errno or 0, "check the path and what is there")
