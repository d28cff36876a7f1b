"""Resources of this process: standard streams, limits of the system, garbage collection."""

import contextlib
import gc
import logging
import os
import resource
import sys
import threading
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.resources")

_STANDARD_ERROR: Final = 2
_M_MMAP_THRESHOLD: Final = -3
YOUNG_OBJECTS: Final = 1_000
MIDDLE_COLLECTIONS: Final = 10
"""Collections of the young generation before one of the middle generation, which then has 10 000
objects and takes 1 to 5 ms."""
FULL_COLLECTIONS: Final = 10_000
"""Collections of the middle generation before a full one: practically never."""
_SWITCH_SECONDS: Final = 0.001
_MIB: Final = 1 << 20
NEEDED_FILES: Final = 64
"""A server with the console, an audit log and its child processes opened 30 when measured."""
NEEDED_THREADS: Final = 32
"""The same server was seen to have 20."""
NEEDED_ADDRESS_SPACE: Final = 2048 * _MIB
"""The same server was seen to reserve 1.3 GiB: glibc reserves 72 MiB for each thread."""
NEEDED_DATA: Final = 512 * _MIB
_NEEDED: Final = (
    (resource.RLIMIT_AS, NEEDED_ADDRESS_SPACE, "address space", "ulimit -v, LimitAS="),
    (resource.RLIMIT_DATA, NEEDED_DATA, "data", "ulimit -d, LimitDATA="),
)


class TooFewResources(Exception):
    """The system grants less than a server needs; the message says what, and how much it needs."""


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


def raise_file_limit() -> None:
    """Raise the limit on open files to the hard limit.

    The usual soft limit, 1024, is meant for programs that use `select`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_limits() -> None:
    """Check that the system grants what a server needs.

    Below that, its libraries crash, or it starts and serves nothing. To be called before they are
    imported, and after `raise_file_limit`.

    Raises:
        TooFewResources: A limit is too low.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < NEEDED_FILES:
        raise TooFewResources(
            f"the limit on open files is {files}, but a server needs at least {NEEDED_FILES}:"
            " raise it (ulimit -n, LimitNOFILE=)"
        )
    for limit, needed, name, remedy in _NEEDED:
        granted, _ = resource.getrlimit(limit)
        if granted != resource.RLIM_INFINITY and granted < needed:
            raise TooFewResources(
                f"the limit on {name} is {granted // _MIB} MiB, but a server needs at least"
                f" {needed // _MIB} MiB: raise it ({remedy})"
            )
    _check_threads()


def _check_threads() -> None:
    """Start as many threads as a server needs: there are limits of the user, and of containers."""
    end = threading.Event()
    threads: list[threading.Thread] = []
    try:
        for _ in range(NEEDED_THREADS):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except (RuntimeError, MemoryError):
        raise TooFewResources(
            f"the system lets this process start {len(threads)} threads, but a server needs at"
            f" least {NEEDED_THREADS}: raise the limit (ulimit -u, TasksMax=, the limit on"
            " processes of the container)"
        ) from None
    finally:
        end.set()
        for thread in threads:
            thread.join()


def warn_if_fewer_files_than(connections: int) -> None:
    """Log a warning if the limit on open files is below that many connections."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < connections:
        _LOG.warning(
            "fewer files than connections may be open: raise the limit (LimitNOFILE, ulimit -n),"
            " or lower limits.connections.most",
            extra={"open_files": limit, "connections": connections},
        )


def configure_gc() -> None:
    """Set the thresholds of the cyclic garbage collector for the life of the process.

    A collection looks at every object of its generations while all threads wait: at a million
    cached users for 0.15 s. Nothing that lives long here is part of a cycle, so the collector
    looks at young objects only, of which there are few, and a policy that is served is exempt
    for good. Objects without cycles are freed as ever, as soon as nothing refers to them.
    """
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_COLLECTIONS, FULL_COLLECTIONS)


def shorten_thread_switches() -> None:
    """Have a thread that computes give the interpreter's lock to others after 1 ms instead of 5.

    The event loop asks for the lock several times during each call. With 5 ms, p99 of single checks
    beside application checks of 4 MiB, which are parsed in a thread, was 55 to 110 ms instead of 29
    to 43; the throughput of single checks is the same.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def return_freed_memory() -> None:
    """Have glibc give blocks of 128 KiB and more back to the system as soon as they are freed.

    By default it learns from the first large block that is freed to keep all up to that size.
    """
    # Where Python comes with libffi 3.5, this import opens a file, which must get the number of no
    # standard stream.
    import ctypes  # noqa: PLC0415

    with contextlib.suppress(AttributeError, OSError):  # another libc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


def freeze_gc() -> None:
    """Exempt everything that exists now from collections."""
    gc.collect(1)
    gc.freeze()
