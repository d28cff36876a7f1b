"""Standard error for the log, where nobody may read: a log that hangs must not hang the server."""

import logging
import os
import select
import sys
from typing import Final, TextIO

_WAIT_MILLISECONDS: Final = 100


class LogStream(logging.StreamHandler[TextIO]):
    """Writes lines to standard error. While that takes none, they are lost, and counted; the
    first one of them waits for a tenth of a second. Any thread may use it.
    """

    def __init__(self) -> None:
        """Write to what standard error is now."""
        super().__init__(sys.stderr)
        self._lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, and before it how many were lost."""
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError):  # not a file, as in tests, or closed
            super().emit(record)
            return
        try:
            if self._lost and _takes_more(descriptor, 0):
                lost, self._lost = self._lost, 0
                self._write(descriptor, _lines_were_lost(lost), lost)
            self._write(descriptor, record, 1)
        except Exception:
            self.handleError(record)

    def _write(self, descriptor: int, record: logging.LogRecord, lines: int) -> None:
        """Write a line in pieces that a pipe takes in one go if it takes anything."""
        self.flush()
        text = ("\n" if self._torn else "") + self.format(record) + "\n"
        data = memoryview(text.encode(errors="backslashreplace"))
        whole = len(data)
        while data:
            if not _takes_more(descriptor, 0 if self._lost else _WAIT_MILLISECONDS):
                self._torn = self._torn or len(data) < whole
                self._lost += lines
                return
            data = data[os.write(descriptor, data[: select.PIPE_BUF]) :]
        self._torn = False


def _takes_more(descriptor: int, milliseconds: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(milliseconds))


def _lines_were_lost(count: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": "queuegate_server.logs",
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "lines of the log were lost: standard error took none",
            "lost": count,
        }
    )
