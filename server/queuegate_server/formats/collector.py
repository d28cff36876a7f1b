"""Keeps the cyclic garbage collector out of the way of a large document.

A document becomes millions of small objects without cycles. The collector would look at
all of them again and again: it took two thirds of the time of a load, in pauses that
stop every thread of the process.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """How many threads need the collector to rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_enabled:
                gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector of the process meanwhile. Thread-safe."""
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
