"""Finds the positions of list entries in a property, such as the names of child queues.

The XML reader keeps only the position of a value's tag, so entries are located in the source. An
entry that does not occur literally in the source, such as the value of a variable, gets the tag's
position.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.yarn.variables import LocatedText

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_START_TAG: Final = re.compile(r"<(?:[\w.-]+:)?value[ \t]*>")
_SEPARATOR: Final = ","


class ListReader:
    """Splits list values from one file into entries with positions."""

    def __init__(self, data: bytes, file: str) -> None:
        """Split `data` into lines. Values read from `data` have `file` as their file name."""
        self._text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        self._lines = [0, *(match.end() for match in _LINE_BREAK.finditer(self._text))]
        """The offset of each line."""
        self._file = file

    def entries(self, value: LocatedText) -> Iterator[LocatedText]:
        """Yield the non-empty entries of a list, trimmed, with their positions."""
        written = self._written(value)
        for entry in value.text.split(_SEPARATOR):
            place = next(written, value)
            if name := entry.strip(TRIMMED):
                at = place if place.text == name else value
                yield LocatedText(at.line, at.column, name, value.file)

    def _written(self, value: LocatedText) -> Iterator[LocatedText]:
        """Yield the entries as written in the value's source, including empty entries."""
        if value.file != self._file or not 0 < value.line <= len(self._lines):
            return
        tag = _START_TAG.match(self._text, self._lines[value.line - 1] + value.column - 1)
        if tag is None:
            return
        offset = tag.end()
        for entry in self._text[offset : self._text.find("<", offset)].split(_SEPARATOR):
            # Cut a name that spans lines, so that `entries` uses the tag's position.
            name = _LINE_BREAK.split(entry.strip(TRIMMED))[0]
            start = offset + entry.find(name)
            line = bisect_right(self._lines, start)
            yield LocatedText(line, start - self._lines[line - 1] + 1, name, value.file)
            offset += len(entry) + len(_SEPARATOR)
