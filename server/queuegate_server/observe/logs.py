"""Structured logs on stderr: JSON, or human-readable lines on a terminal.

Lines below the level `warning` are held back until a server has announced its addresses, so that
the announcement comes first. While stderr is blocked, lines are dropped and counted.

The rest of the server uses the standard `logging` module, with constant messages and fields in
`extra`; only this module uses structlog.
"""

import logging
import os
import re
import select
import sys
import warnings
from collections.abc import MutableMapping
from datetime import UTC, datetime
from logging.handlers import MemoryHandler
from typing import Any, Final, TextIO

import structlog

from queuegate_server.formats.diagnostics import printable
from queuegate_server.observe.log_sampling import (
    LIBRARIES,
    MAX_FOREIGN_MESSAGE,
    SAMPLER,
    shorten_foreign_message,
)


def _add_time(form: str) -> Any:
    """Return a processor that adds the time when a record was created rather than written."""

    def add(_logger: object, _name: str, event: MutableMapping[str, Any]) -> Any:
        created = datetime.fromtimestamp(event["_record"].created, UTC)
        event["timestamp"] = created.strftime(form)
        return event

    return add


_FULL: Final[list[Any]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _add_time("%Y-%m-%dT%H:%M:%S.%fZ"),
]
_BRIEF: Final[list[Any]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    _add_time("%H:%M:%SZ"),
]
"""Processors for a terminal, without the date and the logger's name."""
_INDENT: Final = "    "
_COLUMNS: Final = 100
"""The assumed width of a terminal that does not report its width."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
WRITE_TIMEOUT_MS: Final = 100
MAX_HELD_LINES: Final = 1_000
"""The maximum number of lines held back before the announcement."""


class StderrHandler(logging.StreamHandler[TextIO]):
    """A handler that writes to stderr. While stderr is blocked, lines are dropped and counted.

    The first such line waits up to WRITE_TIMEOUT_MS before being dropped. The count is logged once
    stderr is writable again. Thread-safe.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. If earlier lines were lost, first write a line with their number."""
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError):  # closed, or not a real file (in tests)
            super().emit(record)
            return
        try:
            if self._lost and _is_writable(descriptor, 0):
                lost, self._lost = self._lost, 0
                self._write(descriptor, _lines_were_lost(lost), lost)
            self._write(descriptor, record, 1)
        except Exception:
            self.handleError(record)

    def _write(self, descriptor: int, record: logging.LogRecord, lines: int) -> None:
        """Write a line in pieces that a writable pipe accepts without blocking (PIPE_BUF bytes)."""
        self.flush()
        text = ("\n" if self._torn else "") + self.format(record) + "\n"
        data = memoryview(text.encode(errors="backslashreplace"))
        size = len(data)
        while data:
            if not _is_writable(descriptor, 0 if self._lost else WRITE_TIMEOUT_MS):
                self._torn = self._torn or len(data) < size
                self._lost += lines
                return
            data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
        self._torn = False


def configure(level: str, form: str, *, worker: int | None = None, hold_back: bool = False) -> None:
    """Send all of the process's logs to stderr, escaped. Replaces any earlier configuration.

    Args:
        level: The name of a logging level, in lowercase.
        form: `json`, `console`, or `auto` (`console` if stderr is a terminal).
        worker: The worker's index, added to each line as a field.
        hold_back: Whether to hold back lines below level `warning` until `release` is called, a
            warning is logged or the process exits.
    """
    on_terminal = sys.stderr.isatty()
    adding = _FULL
    rendering: list[Any] = [structlog.processors.format_exc_info]
    if form == "json" or (form == "auto" and not on_terminal):
        rendering.append(structlog.processors.JSONRenderer())
    else:
        console = structlog.dev.ConsoleRenderer(
            0 if on_terminal else 30,
            colors=on_terminal,
            repr_native_str=True,
            exception_formatter=structlog.dev.plain_traceback,
        )
        rendering += [_escape, console]
        if on_terminal:
            adding = _BRIEF
            rendering.append(_wrap)
    if worker is not None:
        rendering.insert(0, lambda _logger, _name, event: {**event, "worker": worker})
    handler = StderrHandler()
    handler.addFilter(SAMPLER)
    handler.addFilter(shorten_foreign_message)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=adding,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    # These fields are unused, and collecting them is slow when many calls fail.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    release()
    root = logging.getLogger()
    root.handlers = [handler]
    if hold_back:
        root.handlers = [MemoryHandler(MAX_HELD_LINES, logging.WARNING, handler)]
    root.setLevel(level.upper())
    for chatty in ("asyncio", "grpc"):
        logging.getLogger(chatty).setLevel(max(root.level, logging.WARNING))
    warnings.showwarning = _log_warning
    # By default, Python prints each distinct warning only once, so it stores every warning forever.
    warnings.simplefilter("always", append=True)


def _log_warning(  # noqa: PLR0917 - the signature is Python's
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning from Python or a library. The text may contain client data."""
    del file, line
    fields = {
        "category": category.__name__,
        "warning": str(message)[:MAX_FOREIGN_MESSAGE],
        "place": f"{filename}:{lineno}",
    }
    logging.getLogger(LIBRARIES).warning("warning from a library", extra=fields)


def release() -> None:
    """Write all held-back lines, and stop holding lines back."""
    root = logging.getLogger()
    for handler in root.handlers:
        if isinstance(handler, MemoryHandler) and handler.target is not None:
            root.handlers = [handler.target]
            handler.close()


def _is_writable(descriptor: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(milliseconds))


def _lines_were_lost(count: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": "queuegate_server.logs",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "log lines were lost: stderr was blocked",
            "lost": count,
        }
    )


def _escape(_logger: object, _name: str, event: MutableMapping[str, Any]) -> Any:
    """Escape the message and tracebacks, and indent tracebacks, to prevent forged log lines."""
    event["event"] = printable(str(event.get("event", "")))
    for key in ("exception", "stack"):
        if event.get(key):
            lines = str(event[key]).split("\n")
            event[key] = "\n".join(_INDENT + printable(line) for line in lines)
    return event


def _wrap(_logger: object, _name: str, text: str) -> str:
    """Wrap a line, but not its traceback, to fit the terminal. Continuation lines are indented so
    that they cannot be mistaken for log lines.
    """
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except (OSError, ValueError):  # stderr is closed or no longer a terminal
        columns = _COLUMNS
    line, *traceback = text.split("\n", 1)
    wrapped, used = "", 0
    for word in line.split(" "):
        size = len(_COLOUR.sub("", word))
        if used and used + 1 + size > columns:
            wrapped, used = f"{wrapped}\n{_INDENT}{word}", len(_INDENT) + size
        else:
            blank = " " if wrapped else ""
            wrapped, used = f"{wrapped}{blank}{word}", used + len(blank) + size
    return "\n".join([wrapped, *traceback])
