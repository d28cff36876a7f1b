"""Log sampling, so that lines repeated during an outage do not fill the disk."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_LINES: Final = 5
"""The maximum number of identical lines logged per window."""
WINDOW_SECONDS: Final = 1.0
MAX_WINDOWS: Final = 1024
"""The maximum number of distinct lines tracked. At the limit, the oldest is evicted."""
MAX_FOREIGN_MESSAGE: Final = 500
"""The maximum length of a library's message. Such messages may quote client data."""
LIBRARIES: Final = "queuegate_server.libraries"
"""The logger for warnings from libraries."""
_OWN: Final = "queuegate"
_SAMPLED: Final = (
    "queuegate_server.admin",
    "queuegate_server.admission",
    "queuegate_server.console",
    "queuegate_server.identity",
    LIBRARIES,
    "queuegate_server.rpc",
    "queuegate_server.sync",
    "aiohttp",
    "asyncio",
    "grpc",
    "opentelemetry",
)
"""The loggers to sample, because the number of their lines depends on callers."""
_KEY_FIELDS: Final = ("method", "code", "reason")
"""Fields that distinguish lines with the same message. Each has a fixed set of values."""

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Window:
    started: float
    last: logging.LogRecord
    logged: int = 0
    suppressed: int = 0


class LogSampler(logging.Filter):
    """A filter that passes the first few identical warnings per second and counts the rest.

    The next identical warning reports the count in its `suppressed` field; if none follows soon, a
    separate line does. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[_Key, _Window] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a line. Its `suppressed` field counts dropped similar lines."""
        if record.levelno < logging.WARNING or not record.name.startswith(_SAMPLED):
            return True
        key = _key(record.name, record.levelno, str(record.msg), record.__dict__)
        with self._lock:
            window = self._window(key, record)
            if window.logged < MAX_LINES:
                window.logged += 1
                return True
            self._suppress(key, window)
        return False

    def suppresses(self, name: str, level: int, message: str, fields: Mapping[str, object]) -> bool:
        """Return whether to suppress a line, and count it if so, without building a `LogRecord`."""
        key = _key(name, level, message, fields)
        with self._lock:
            window = self._windows.get(key)
            if window is None or window.logged < MAX_LINES or self._is_over(window):
                return False
            self._suppress(key, window)
        return True

    def _suppress(self, key: _Key, window: _Window) -> None:
        """Count a suppressed line. If it is the first, schedule a report for the window's end."""
        window.suppressed += 1
        if window.suppressed == 1:
            with contextlib.suppress(RuntimeError):  # no event loop; the next line reports it
                asyncio.get_running_loop().call_later(WINDOW_SECONDS, self._report, key)

    def _is_over(self, window: _Window) -> bool:
        return self._clock() - window.started >= WINDOW_SECONDS

    def _window(self, key: _Key, record: logging.LogRecord) -> _Window:
        window = self._windows.get(key)
        if window is None or self._is_over(window):
            if window is not None and window.suppressed:
                record.__dict__["suppressed"] = window.suppressed
            self._windows.pop(key, None)
            window = self._windows[key] = _Window(self._clock(), record)
            if len(self._windows) > MAX_WINDOWS:
                del self._windows[next(iter(self._windows))]
        return window

    def _report(self, key: _Key) -> None:
        with self._lock:
            window = self._windows.get(key)
            if window is None or not window.suppressed or not self._is_over(window):
                return
            count, last = window.suppressed, window.last
            del self._windows[key]
        fields: dict[str, object] = {"like": str(last.msg), "suppressed": count}
        fields |= {name: last.__dict__[name] for name in _KEY_FIELDS if name in last.__dict__}
        logging.getLogger(last.name).log(
            last.levelno, "similar log lines were suppressed", extra=fields
        )


def shorten_foreign_message(record: logging.LogRecord) -> bool:
    """Truncate a library's message. Always returns True, because it serves as a logging filter."""
    if not record.name.startswith(_OWN):
        try:
            message = record.getMessage()
        except Exception:  # the arguments do not match the format string
            message = str(record.msg)
        record.msg, record.args = message[:MAX_FOREIGN_MESSAGE], ()
    return True


def _key(name: str, level: int, message: str, fields: Mapping[str, object]) -> _Key:
    return (name, level, message, *map(fields.get, _KEY_FIELDS))


SAMPLER: Final = LogSampler()
"""The process-wide sampler."""
