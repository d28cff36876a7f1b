"""Structured logs on stderr: JSON, or readable lines on a terminal.

The rest of the server logs through the standard `logging` module, with constant
messages and fields in `extra`; this is the only place that knows structlog.
"""

import logging
import sys
from typing import Any, Final

import structlog

_SHARED: Final[list[Any]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure(level: str, form: str) -> None:
    """Send all logs of the process to stderr.

    `level` is a name of the logging module in lower case; `form` is `json`,
    `console`, or `auto` (`console` if stderr is a terminal). Text is escaped in both
    forms, so that a value cannot forge a line.
    """
    on_terminal = sys.stderr.isatty()
    if form == "json" or (form == "auto" and not on_terminal):
        rendering: list[Any] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        rendering = [structlog.dev.ConsoleRenderer(colors=on_terminal, repr_native_str=True)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for chatty in ("asyncio", "watchfiles"):
        logging.getLogger(chatty).setLevel(max(root.level, logging.WARNING))
