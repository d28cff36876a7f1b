"""Bounds how often equal warnings are logged: an outage must not fill the disk.

A failing directory makes every call fail, thousands in a second, each with the same
line. The first ones of a second are logged and the others are counted.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
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


class LogSampler(logging.Filter):
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
        key = _key(record.name, record.levelno, str(record.msg), record.__dict__)
        with self._lock:
            window = self._window(key, record)
            if window.logged < MOST:
                window.logged += 1
                return True
            first = self._suppress(window)
        if first:
            self._tell_later(key)
        return False

    def suppresses(self, name: str, level: int, message: str, fields: Mapping[str, object]) -> bool:
        """Say whether a line would not be written now, and count it then: to make a line, which
        is the cost of most refusals, is only for one that is written.

        Takes what tells lines apart: name of the logger, message, and these fields.
        """
        key = _key(name, level, message, fields)
        with self._lock:
            window = self._windows.get(key)
            if window is None or window.logged < MOST or self._is_over(window):
                return False
            first = self._suppress(window)
        if first:
            self._tell_later(key)
        return True

    def _suppress(self, window: _Window) -> bool:
        """Count a line that is not written, and say whether it is the first one."""
        window.suppressed += 1
        return window.suppressed == 1

    def _is_over(self, window: _Window) -> bool:
        return self._clock() - window.started >= SECONDS

    def _window(self, key: _Key, record: logging.LogRecord) -> _Window:
        window = self._windows.get(key)
        if window is None or self._is_over(window):
            if window is not None and window.suppressed:
                record.__dict__["suppressed"] = window.suppressed
            self._windows.pop(key, None)
            window = self._windows[key] = _Window(self._clock(), record)
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
            if window is None or not window.suppressed or not self._is_over(window):
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


def _key(name: str, level: int, message: str, fields: Mapping[str, object]) -> _Key:
    return (name, level, message, *map(fields.get, _TELLS_APART))


LIMIT: Final = LogSampler()
"""The one of this process, as its logs are."""
