"""File descriptors of this process: the standard streams, and the limit on open files."""

import contextlib
import logging
import os
import resource
import sys
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.fds")

_STANDARD_ERROR: Final = 2


def open_standard_streams() -> None:
    """Open those standard streams that are closed on the null device.

    Otherwise a connection could get the number of one of them, and messages or audit records
    would be written to it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def drop_unwritten_output() -> None:
    """Forget text that could not be written to the standard streams.

    Otherwise the interpreter tries to write it once more at exit, fails again, and exits with
    status 120 (Python 3.13.5).
    """
    sys.stdout = os.fdopen(os.dup(1), "w")
    sys.stderr = os.fdopen(os.dup(_STANDARD_ERROR), "w")


def raise_limit() -> None:
    """Raise the limit on open files to the hard limit.

    The usual soft limit, 1024, is meant for programs that use `select`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def warn_if_fewer_than(connections: int) -> None:
    """Log a warning if the limit on open files is below that many connections."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < connections:
        _LOG.warning(
            "fewer files than connections may be open: raise the limit (LimitNOFILE, ulimit -n),"
            " or lower limits.connections.most",
            extra={"open_files": limit, "connections": connections},
        )
