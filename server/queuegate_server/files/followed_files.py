"""Small files that are read again when they change: certificates, keys, tokens.

They are read by a thread of their own, so that a file system that hangs holds up
nothing: what was read last stays in force.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from queuegate_server.files.safe_open import open_regular

T = TypeVar("T")

_LOG = logging.getLogger("queuegate_server.files")
_LONGEST: Final = 1 << 20
_LOOK_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 10.0


class BadFile(Exception):
    """A file cannot be read, or not be used; the message names it."""


class FollowedFiles(Generic[T]):
    """What is made of some files, made anew whenever their content changes.

    Their contents are compared once a second, which sees every way of replacing them, also
    that of Kubernetes, and costs little as long as they are small. A fault keeps what
    there is, and is logged once.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        parse: Callable[[Sequence[bytes]], T],
        changed: Callable[[T], None],
    ) -> None:
        """Read for the first time and begin to follow.

        `parse` raises BadFile; it and `changed` are called in the thread, `changed` also
        with what was read first, before this returns. Raises BadFile.
        """
        self._paths = tuple(paths)
        self._parse = parse
        self._changed = changed
        self._contents: tuple[bytes, ...] = ()
        self._fault: BadFile | None = None
        self._changes = threading.Condition()
        self._ended = False
        self._asked = 1
        self._looked = 0
        self.used = 0
        """How many readings were used: the first one, and each that was new."""
        self.refused = 0
        """How many were not."""
        threading.Thread(target=self._follow, name="followed-files", daemon=True).start()
        if not self._wait_for(1):
            self.close()
            raise BadFile(f"{self._paths[0]}: reading took longer than {_WAIT_SECONDS:g} s")
        if self._fault is not None:
            self.close()
            raise self._fault

    def close(self) -> None:
        """Follow no longer."""
        with self._changes:
            self._ended = True
            self._changes.notify_all()

    def look(self) -> None:
        """Look now, and return once what is new is published, after ten seconds at most."""
        with self._changes:
            self._asked += 1
            number = self._asked
            self._changes.notify_all()
        self._wait_for(number)

    def _wait_for(self, number: int) -> bool:
        with self._changes:
            return self._changes.wait_for(
                lambda: self._ended or self._looked >= number, _WAIT_SECONDS
            )

    def _next_look(self, looked: int) -> int:
        """Wait until it is time to look again; return what that answers, 0 at the end."""
        with self._changes:
            self._looked = looked
            self._changes.notify_all()
            self._changes.wait_for(lambda: self._ended or self._asked > looked, _LOOK_SECONDS)
            return 0 if self._ended else self._asked

    def _follow(self) -> None:
        self._fault = self._look()
        self.used = int(self._fault is None)
        told = ""
        looked = 1
        while looked := self._next_look(looked):
            before = self._contents
            fault = self._look()
            if fault is not None and str(fault) != told:
                self.refused += 1
                _LOG.error("a changed file is not used", extra={"error": str(fault)})
            elif fault is None and (told or self._contents != before):
                self.used += 1
                _LOG.info("changed files are used", extra={"files": [*map(str, self._paths)]})
            told = str(fault or "")

    def _look(self) -> BadFile | None:
        """Read, and publish what is new; return what is wrong with it."""
        try:
            contents = self._read()
            if contents == self._contents:
                return None
            value = self._parse(contents)
            is_settled = self._read() == contents
        except BadFile as error:
            return error
        except Exception as error:
            return BadFile(f"{self._paths[0]}: {type(error).__name__}: {error}")
        if not is_settled:  # the parser may have looked at other files
            return BadFile(f"{self._paths[0]}: is being changed")
        self._contents = contents
        self._changed(value)
        return None

    def _read(self) -> tuple[bytes, ...]:
        return tuple(map(_content, self._paths))


def _content(path: Path) -> bytes:
    try:
        with open_regular(path) as opened:
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror or error}") from None
    if len(content) > _LONGEST:
        raise BadFile(f"{path}: is larger than {_LONGEST} bytes")
    return content
