"""The positions of the entries of a property that is a list, such as the names of child queues.

The reader of XML keeps the position of a value's tag only, so the entries are looked up in the text
of the file. An entry that is not written there as it is, such as one from a variable, has the
position of the tag.
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
    """Reads lists in the values of one file."""

    def __init__(self, data: bytes, file: str) -> None:
        """Keep the lines of a file.

        Args:
            data: The content.
            file: The name that its values have.
        """
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        self._lines = _LINE_BREAK.split(text)
        self._file = file

    def entries(self, value: Text) -> Iterator[Text]:
        """Yield the entries of a list that are not empty, trimmed, each with its position."""
        written = self._written(value)
        for entry in value.text.split(_SEPARATOR):
            place = next(written, value)
            if name := entry.strip(TRIMMED):
                at = place if place.text == name else value
                yield Text(at.line, at.column, name, value.file)

    def _written(self, value: Text) -> Iterator[Text]:
        """Yield the entries, also empty ones, as they are written between the tags of a value."""
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
            entry = _begun(entry, first, number, column)
            for previous, text in zip((first, *others), others, strict=False):
                yield entry
                column += len(previous) + 1
                entry = _begun(nothing, text, number, column)
            if end_tag:
                break
            start = 0
        yield entry


def _begun(entry: Text, text: str, line: int, column: int) -> Text:
    """Return an entry that begins in a piece of text, unless that is blank or the entry has begun.

    A name that spans lines is not joined: it differs from the entry of the value then.
    """
    blanks = len(text) - len(text.lstrip(TRIMMED))
    if entry.text or blanks == len(text):
        return entry
    return Text(line, column + blanks, text.strip(TRIMMED), entry.file)
