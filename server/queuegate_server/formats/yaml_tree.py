"""YAML text -> nodes that know their position and keep the text of their scalars.

The reader to agree with is go-yaml v3, with which YuniKorn reads its configuration:
only the first document of a stream is read, a repeated key is a fault, `<<` merges,
and what a scalar means is left to whoever asks for it (`007`, `yes` and `2024-01-01`
stay as they are written). Unlike it, tags other than `!!str`, `!!seq` and `!!map` are
refused, and size, depth and number of nodes are bounded.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml import events
from yaml.tokens import StreamEndToken

from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, TooManyErrors
from queuegate_server.formats.yaml_builder import Builder
from queuegate_server.formats.yaml_nodes import Node, Scalar
from queuegate_server.formats.yaml_text import ParseError, Position, decode, split_lines

# Only the parsing half of these classes is used. The first one needs libyaml.
_PARSER: Final[Callable[[bytes], Any]] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_LOOKED_AT: Final = 4
"""The start of the stream, and what go-yaml v3 scans to find comments: three tokens."""


@dataclass(frozen=True, slots=True)
class Document:
    """What was read."""

    root: Node | None
    """None if the document is empty or null, or if it cannot be read."""
    diagnostics: tuple[Diagnostic, ...]
    """The errors: repeated keys and the like if there is a root, else why there is none."""
    second: Position | None = None
    """Where the next document that is not empty starts; it is not read."""


def read(data: bytes, file: str) -> Document:
    """Read the first document of a stream of UTF-8 text. No input makes it raise.

    `file` is the name that the diagnostics show.
    """
    diagnostics = Diagnostics(file)
    root = None
    second = None
    try:
        text = decode(data)
        try:
            get_event = _PARSER(data).get_event
            builder = Builder(diagnostics)
            built = builder.build(get_event)
            _look_ahead(text, builder.ended)
            root = built
            second = _next_document(get_event)
        except yaml.MarkedYAMLError as error:
            raise _syntax_fault(error, text) from None
        except yaml.YAMLError as error:
            raise ParseError(None, f"not valid YAML: {error}", _CHECK_SYNTAX) from None
    except ParseError as fault:
        with suppress(TooManyErrors):
            diagnostics.error(fault.position, fault.message, fault.remedy)
    except TooManyErrors:
        pass
    if isinstance(root, Scalar) and root.is_null:
        root = None
    return Document(root, diagnostics.sorted(), second)


def _position(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)


def _look_ahead(text: str, end: Any) -> None:
    """Scan as much behind the end of the first document as go-yaml does, which refuses the
    whole text for a fault in it. Raises ParseError.
    """
    rest = text[end.index :]
    parser = _PARSER(rest.encode())
    try:
        for _ in range(_LOOKED_AT):
            if isinstance(parser.get_token(), StreamEndToken):
                break
    except yaml.MarkedYAMLError as error:
        fault = _syntax_fault(error, rest)
        at = fault.position or Position(1, 1)
        position = Position(end.line + at.line, at.column + (end.column if at.line == 1 else 0))
        raise ParseError(position, fault.message, fault.remedy) from None


def _next_document(get_event: Callable[[], Any]) -> Position | None:
    """Return where the next document that is not empty starts, after the end of one."""
    start = None
    with suppress(yaml.YAMLError):  # what is not read may be wrong
        while (event := get_event()) is not None:
            if isinstance(event, events.DocumentStartEvent):
                start = _position(event)
            elif not isinstance(event, events.DocumentEndEvent | events.StreamEndEvent) and not (
                isinstance(event, events.ScalarEvent) and not event.value
            ):
                return start
    return None


_CHECK_SYNTAX: Final = "check quotes, brackets and indentation, here and in the lines above"


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> ParseError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return ParseError(None, f"not valid YAML: {error}", _CHECK_SYNTAX)
    position = Position(mark.line + 1, mark.column + 1)
    lines = split_lines(text)
    rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    if error.context and "alias" in error.context and error.context_mark:
        start = Position(error.context_mark.line + 1, error.context_mark.column + 1)
        message = 'an unquoted "*" starts a YAML alias'
        return ParseError(start, message, 'put the value in quotes, the wildcard as "*"')
    if rest.startswith("\t"):
        return ParseError(position, "a tab stands where YAML allows none", "use blanks to indent")
    message = f"not valid YAML: {error.problem}"
    if error.context:
        message = f"{message}, {error.context}"
        if error.context_mark and error.context_mark.line != mark.line:
            message = f"{message} that starts in line {error.context_mark.line + 1}"
    return ParseError(position, message, _CHECK_SYNTAX)
