"""Finds the positions of list entries in a property, such as the names of child queues.

The XML reader keeps only the position of a value's tag, so entries are located in the source. An
entry that does not occur literally in the source, such as the value of a variable, gets the tag's
position.
"""

import re
from collections.abc import Iterator
from typing import Final

from queuegate.policy.yarn_acl import TRIMMED
from queuegate_server.formats.yarn.variables import Text

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")
_START_TAG: Final = re.compile(r"<(?:[\w.-]+:)?value\s*>")
_SEPARATOR: Final = ","


class ListReader:
    """Splits list values from one file into entries with positions."""

    def __init__(self, data: bytes, file: str) -> None:
        """Split `data` into lines. Values read from `data` have `file` as their file name."""
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        self._lines = _LINE_BREAK.split(text)
        self._file = file

    def entries(self, value: Text) -> Iterator[Text]:
        """Yield the non-empty entries of a list, trimmed, with their positions."""
        written = self._written(value)
        for entry in value.text.split(_SEPARATOR):
            place = next(written, value)
            if name := entry.strip(TRIMMED):
                at = place if place.text == name else value
                yield Text(at.line, at.column, name, value.file)

    def _written(self, value: Text) -> Iterator[Text]:
        """Yield the entries as written in the value's source, including empty entries."""
        if value.file != self._file or not 0 < value.line <= len(self._lines):
            return
        tag = _START_TAG.match(self._lines[value.line - 1], value.column - 1)
        if tag is None:
            return
        entry = nothing = value._replace(text="")
        start = tag.end()
        for number in range(value.line, len(self._lines) + 1):
            line, end_tag, _ = self._lines[number - 1][start:].partition("<")
            first, *others = line.split(_SEPARATOR)
            column = start + 1
            entry = _start(entry, first, number, column)
            for previous, text in zip((first, *others), others, strict=False):
                yield entry
                column += len(previous) + 1
                entry = _start(nothing, text, number, column)
            if end_tag:
                break
            start = 0
        yield entry


def _start(entry: Text, text: str, line: int, column: int) -> Text:
    """Return `entry` if it is nonempty or `text` is blank; otherwise, return the entry in `text`.

    A name that spans lines is cut after its first line, so `ListReader.entries` does not use it.
    """
    blanks = len(text) - len(text.lstrip(TRIMMED))
    if entry.text or blanks == len(text):
        return entry
    return Text(line, column + blanks, text.strip(TRIMMED), entry.file)
