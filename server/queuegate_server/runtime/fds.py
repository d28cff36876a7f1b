"""The open files of this process: the standard ones, and how many there may be, of which each
connection is one.
"""

import contextlib
import logging
import os
import resource
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.fds")

_STANDARD_ERROR: Final = 2


def occupy_the_standard_ones() -> None:
    """Open those of input, output and errors that are closed, on nothing: otherwise a connection
    could get the number, and what is meant for people, or for the audit log, would go there.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def allow_as_many_as_possible() -> None:
    """Raise the limit to what the system lets the process have.

    The usual one, 1024, is for programs that use `select`, which cannot count further.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def warn_of_fewer_than(connections: int) -> None:
    """Log that there are fewer than so many connections would take."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < connections:
        _LOG.warning(
            "there may be more connections than open files: raise the limit (LimitNOFILE, ulimit"
            " -n), or lower limits.connections.most",
            extra={"open_files": limit, "connections": connections},
        )
