"""Structured logs on stderr: JSON, or readable lines on a terminal.

The rest of the server logs through the standard `logging` module, with constant
messages and fields in `extra`; this is the only place that knows structlog.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog

from queuegate_server.observe.log_sampling import LIMIT
from queuegate_server.observe.log_stream import LogStream
from queuegate_server.printable import printable

_SHARED: Final[list[Any]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_INDENT: Final = "    "


def configure(level: str, form: str, *, worker: int | None = None) -> None:
    """Send all logs of the process to stderr; a later call replaces an earlier one.

    `level` is a name of the logging module in lower case; `form` is `json`,
    `console`, or `auto` (`console` if stderr is a terminal). Text is escaped in both
    forms, so that a value cannot forge a line. `worker` is a field of each line, if given.
    """
    on_terminal = sys.stderr.isatty()
    rendering: list[Any] = [structlog.processors.format_exc_info]
    if form == "json" or (form == "auto" and not on_terminal):
        rendering.append(structlog.processors.JSONRenderer())
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=on_terminal,
            repr_native_str=True,
            exception_formatter=structlog.dev.plain_traceback,
        )
        rendering += [_escaped, console]
    if worker is not None:
        rendering.insert(0, _adds_worker(worker))
    handler = LogStream()
    handler.addFilter(LIMIT)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    # No line tells these, and each costs time where much fails.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for chatty in ("asyncio", "grpc", "watchfiles"):
        logging.getLogger(chatty).setLevel(max(root.level, logging.WARNING))


def _adds_worker(number: int) -> Any:
    def add(_logger: object, _name: str, event: MutableMapping[str, Any]) -> Any:
        event["worker"] = number
        return event

    return add


def _escaped(_logger: object, _name: str, event: MutableMapping[str, Any]) -> Any:
    """Escape what the console form prints as it is: the message, and tracebacks, whose lines
    are also moved to the right, where no line of the log begins.
    """
    event["event"] = printable(str(event.get("event", "")))
    for key in ("exception", "stack"):
        if event.get(key):
            lines = str(event[key]).split("\n")
            event[key] = "\n".join(_INDENT + printable(line) for line in lines)
    return event
