"""Keeps the cyclic garbage collector out of the way of a large document.

A document becomes millions of small objects without cycles. The collector would look at
all of them again and again: it took two thirds of the time of a load, in pauses that
stop every thread of the process.

Meanwhile the event loop gets its turn after 0.5 ms and not after 5 as usual: each call needs
several turns.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TURN_SECONDS: Final = 0.0005


class _Pauses:
    """How many threads need the collector to rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False
        self._turn_seconds = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
                self._turn_seconds = sys.getswitchinterval()
                sys.setswitchinterval(_TURN_SECONDS)
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._turn_seconds)
                if self._was_enabled:
                    gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Disable the cyclic garbage collector of the process and shorten the turns of its threads
    meanwhile. Thread-safe.
    """
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
