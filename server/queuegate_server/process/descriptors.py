"""The limit of this process on open files, of which each connection is one."""

import contextlib
import logging
import resource

_LOG = logging.getLogger("queuegate_server.process.descriptors")


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
