"""Regular files, opened without waiting for anything else that stands in their place."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_CHECK_PATH: Final = "check the path"
_CHECK_RIGHTS: Final = "give the user that runs this the right to read it and to enter its folders"
_REMEDIES: Final = {
    errno.ENOENT: _CHECK_PATH,
    errno.ENOTDIR: _CHECK_PATH,
    errno.EISDIR: "name a file in it",
    errno.EACCES: _CHECK_RIGHTS,
    errno.EPERM: _CHECK_RIGHTS,
}


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; links are followed.

    A pipe would block until somebody writes to it, so what is not a regular file is
    refused. Raises OSError.
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


def read_regular(path: Path, most: int) -> bytes:
    """Return what a file holds; of a larger one, `most` bytes and one more. Raises OSError, also
    for what is not a regular file.
    """
    with open_regular(path) as opened:
        return opened.read(most + 1)


def remedy(error: OSError) -> str:
    """Return what to do about a file that cannot be read."""
    return _REMEDIES.get(error.errno or 0, "check the path and what is there")
