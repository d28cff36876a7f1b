"""Bounds how often equal warnings are logged: an outage must not fill the disk.

A failing directory makes every call fail, thousands in a second, each with the same
line. The first ones of a second are logged and the others are counted.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

MOST: Final = 5
"""How many equal lines are logged within `SECONDS`."""
SECONDS: Final = 1.0
_KEPT: Final = 1024
"""How many different lines are told apart; beyond it the oldest is forgotten."""
_LIMITED: Final = (
    "queuegate_server.admission",
    "queuegate_server.identity",
    "queuegate_server.rpc",
    "asyncio",
    "grpc",
    "opentelemetry",
)
"""Loggers that callers can make write. What others say is bounded by what they do."""
_TELLS_APART: Final = ("method", "code", "reason")
"""Fields by which lines with one message differ; each has a fixed set of values."""

_Key = tuple[object, ...]


class _Window:
    __slots__ = ("last", "logged", "started", "suppressed")

    def __init__(self, started: float, last: logging.LogRecord) -> None:
        self.started = started
        self.logged = 0
        self.suppressed = 0
        self.last = last


class LimitRepeatedLines(logging.Filter):
    """Lets the first few equal warnings of a second pass and counts the rest.

    The count is the field `suppressed` of the next such line; if none comes, of a line
    that says nothing else. For a handler; any thread may use it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take a monotonic clock in seconds."""
        super().__init__()
        self._clock = clock
        self._windows: dict[_Key, _Window] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the line is to be written, and put the count of others into it."""
        if record.levelno < logging.WARNING or not _is_limited(record.name):
            return True
        key = _key(record)
        with self._lock:
            window = self._window(key, record)
            if window.logged < MOST:
                window.logged += 1
                return True
            window.suppressed += 1
            first = window.suppressed == 1
        if first:
            self._tell_later(key)
        return False

    def _window(self, key: _Key, record: logging.LogRecord) -> _Window:
        now = self._clock()
        window = self._windows.get(key)
        if window is None or now - window.started >= SECONDS:
            if window is not None and window.suppressed:
                record.__dict__["suppressed"] = window.suppressed
            self._windows.pop(key, None)
            window = self._windows[key] = _Window(now, record)
            if len(self._windows) > _KEPT:
                del self._windows[next(iter(self._windows))]
        return window

    def _tell_later(self, key: _Key) -> None:
        """Tell the count after the second, unless another line has done so."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a thread; the next such line tells it
        loop.call_later(SECONDS, self._tell, key)

    def _tell(self, key: _Key) -> None:
        with self._lock:
            window = self._windows.get(key)
            if window is None or not window.suppressed or self._clock() - window.started < SECONDS:
                return
            count, like = window.suppressed, window.last
            del self._windows[key]
        told: dict[str, object] = {"like": str(like.msg), "suppressed": count}
        told |= {name: like.__dict__[name] for name in _TELLS_APART if name in like.__dict__}
        logging.getLogger(like.name).log(
            like.levelno, "lines like one before were suppressed", extra=told
        )


def _is_limited(name: str) -> bool:
    return name.startswith(_LIMITED)


def _key(record: logging.LogRecord) -> _Key:
    fields = (record.__dict__.get(name) for name in _TELLS_APART)
    return (record.name, record.levelno, str(record.msg), *fields)
