"""This process's resources: standard streams, system limits and garbage collection."""

import contextlib
import gc
import logging
import os
import resource
import sys
import threading
from collections.abc import Iterator
from typing import Final

_LOG = logging.getLogger("queuegate_server.runtime.resources")

_STANDARD_ERROR: Final = 2
_M_MMAP_THRESHOLD: Final = -3
YOUNG_OBJECTS: Final = 1_000
MIDDLE_COLLECTIONS: Final = 10
"""The number of young collections per middle collection. A middle collection visits 10,000 objects
in 1 to 5 ms."""
FULL_COLLECTIONS: Final = 10_000
"""The number of middle collections per full collection, so high that a full collection practically
never runs."""
_SWITCH_SECONDS: Final = 0.001
_MIB: Final = 1 << 20
NEEDED_FILES: Final = 64
"""The required number of open files. A server with a console, audit log and child processes opened
30 in a test."""
NEEDED_THREADS: Final = 32
"""The required number of threads. In the same test, the server ran 20."""
NEEDED_ADDRESS_SPACE: Final = 2048 * _MIB
"""The required address space. In the same test, the server reserved 1.3 GiB, because glibc reserves
72 MiB per thread."""
NEEDED_DATA: Final = 512 * _MIB
_NEEDED: Final = (
    (resource.RLIMIT_AS, NEEDED_ADDRESS_SPACE, "address space", "ulimit -v, LimitAS="),
    (resource.RLIMIT_DATA, NEEDED_DATA, "data", "ulimit -d, LimitDATA="),
)


class TooFewResources(Exception):
    """A system limit is too low for a server. The message names the limit and the needed amount."""


def open_standard_streams() -> None:
    """Replace closed standard streams with /dev/null, so no connection gets their descriptors."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_ERROR:
        pass
    os.close(descriptor)


def drop_unwritten_output() -> None:
    """Discard unwritten output. At exit, Python 3.13.5 would retry it and fail with status 120."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    sys.stderr = os.fdopen(os.dup(_STANDARD_ERROR), "w")


def raise_file_limit() -> None:
    """Raise the soft limit on open files, usually 1024, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_limits() -> None:
    """Raise TooFewResources if the system grants less than a server needs.

    Below these limits, libraries crash, or the server starts but cannot serve.

    Call this after `raise_file_limit` and before the libraries are imported.
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
    """Check that per-user and container limits let this process start NEEDED_THREADS threads."""
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
            f" least {NEEDED_THREADS}: raise the limit (ulimit -u, TasksMax=, the container's"
            " process limit)"
        ) from None
    finally:
        end.set()
        for thread in threads:
            thread.join()


def warn_if_fewer_files_than(connections: int) -> None:
    """Log a warning if the limit on open files is too low for the given number of connections."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < connections:
        _LOG.warning(
            "the limit on open files is below the limit on connections: raise it (LimitNOFILE,"
            " ulimit -n), or lower limits.connections.most",
            extra={"open_files": limit, "connections": connections},
        )


def configure_gc() -> None:
    """Effectively restrict the cyclic garbage collector to young objects.

    A full collection stops all threads, for 0.15 s with a million cached users. It would free
    nothing, because no long-lived object in this process is part of a cycle, and objects outside
    cycles are freed immediately.
    """
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_COLLECTIONS, FULL_COLLECTIONS)


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect no garbage while the block creates many objects, none of which becomes garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def shorten_thread_switches() -> None:
    """Make a CPU-bound thread release the GIL after 1 ms instead of 5 ms.

    The event loop acquires the GIL several times per call. While other threads parsed application
    checks of 4 MiB, single checks had a p99 latency of 29 to 43 ms, compared to 55 to 110 ms with
    an interval of 5 ms, at the same throughput.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def return_freed_memory() -> None:
    """Make glibc return blocks of 128 KiB or more to the system as soon as they are freed.

    By default, freeing a larger block raises this threshold to the size of that block.
    """
    # Do not import this at module level: with libffi 3.5, the import opens a file, which could get
    # the descriptor of a closed standard stream.
    import ctypes  # noqa: PLC0415

    with contextlib.suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


def trim_heap() -> None:
    """Return freed memory to the system, even if something behind it is still in use.

    This takes about 20 ms of processor time for 200 MiB, during which other threads can run.
    """
    import ctypes  # noqa: PLC0415 - see above

    with contextlib.suppress(AttributeError, OSError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def freeze_gc() -> None:
    """Exempt all existing objects from garbage collection."""
    gc.collect(1)
    gc.freeze()
