"""Decodes configuration files, checks their size and characters, and splits lines."""

import re
from typing import Final

from queuegate_server.formats.diagnostics import ParseError, Position
from queuegate_server.formats.findings.table import finding

MAX_BYTES: Final = 64 * 1024 * 1024
"""The maximum file size, three times the size of 100,000 queues with 1,000,000 ACL entries."""

_BYTE_ORDER_MARK: Final = "\ufeff"
_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_ASCII: Final = bytes((*b"\t\n\r", *range(0x20, 0x7F)))
_FORBIDDEN: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def decode(data: bytes) -> str:
    """Decode a UTF-8 file, and check that YAML allows all its characters.

    libyaml also checks characters, but reports byte offsets instead of lines and columns. Raises
    ParseError if the file is too large, is not UTF-8 or contains a character that YAML forbids.
    """
    if len(data) > MAX_BYTES:
        raise ParseError(None, finding("file-too-large", most=MAX_BYTES))
    if data.startswith(b"\x1f\x8b"):
        raise ParseError(Position(1, 1), finding("compressed-file"))
    try:
        text = data.decode().removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        position = _end_of(data[: error.start].decode().removeprefix(_BYTE_ORDER_MARK))
        raise ParseError(position, finding("not-utf-8", byte=data[error.start])) from None
    if data.isascii() and not data.translate(None, _ASCII):
        return text
    forbidden = _FORBIDDEN.search(text)
    if forbidden:
        found = finding("forbidden-character", code=ord(forbidden[0]))
        raise ParseError(_end_of(text[: forbidden.start()]), found)
    return text


def _end_of(text: str) -> Position:
    lines = split_lines(text)
    return Position(len(lines), len(lines[-1]) + 1)


def source_lines(data: bytes) -> list[str]:
    """Split a file accepted by `decode` into lines, as numbered in diagnostics."""
    return split_lines(data.decode().removeprefix(_BYTE_ORDER_MARK))


def split_lines(text: str) -> list[str]:
    """Split text into lines as YAML does."""
    return _LINE_BREAK.split(text)
