"""Parses YAML into nodes with positions and source text.

Follows go-yaml v3, which YuniKorn uses: only the first document of a stream is read, repeated keys
are errors, `<<` merges, and scalars are not interpreted (`007`, `yes` and `2024-01-01` stay as
written). Unlike go-yaml, this reader rejects tags other than `!!str`, `!!seq` and `!!map`, and
limits the size, depth and number of nodes.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml import events
from yaml.tokens import StreamEndToken

from queuegate_server.formats.diagnostics import Diagnostic, Diagnostics, ParseError, Position
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.source_text import decode
from queuegate_server.formats.yaml_builder import NOTHING, DocumentBuilder, position
from queuegate_server.formats.yaml_faults import syntax_error
from queuegate_server.formats.yaml_nodes import Node, ScalarNode

MAX_DOCUMENTS: Final = 10_000
"""The maximum number of documents in a file."""
MIN_NODES: Final = 500_000
MAX_NODES: Final = 5_000_000
"""The maximum number of nodes, with aliases expanded, in any document. Each takes up to 500
bytes."""
BYTES_PER_NODE: Final = 6
"""The number of bytes that a document needs for each node beyond MIN_NODES. A policy whose queues
have only short names has a node for every seven bytes."""

# Only the loader's parser is used; it constructs no objects. CBaseLoader requires libyaml.
_PARSER: Final[Callable[[bytes], Any]] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_LOOKAHEAD_TOKENS: Final = 4
"""The number of tokens to scan: the start of the stream, and the three tokens that go-yaml v3 scans
for comments."""


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The first document of a stream."""

    root: Node | None
    """The root node; None if the document is empty, null or unreadable."""
    diagnostics: tuple[Diagnostic, ...]
    """The errors: repeated keys, or the reason for a missing root."""
    second: Position | None = None
    """The start of the next non-empty document. That document is not parsed."""


def max_nodes(size: int) -> int:
    """Return how many nodes a document may have. `size` is its number of bytes."""
    return min(MAX_NODES, max(MIN_NODES, size // BYTES_PER_NODE))


def read_yaml(data: bytes, file: str) -> YamlDocument:
    """Parse the first document in UTF-8 text. Never raises. `file` is shown in diagnostics."""
    diagnostics = Diagnostics(file)
    root = None
    second = None
    with diagnostics:
        text = decode(data)
        try:
            get_event = _PARSER(data).get_event
            builder = DocumentBuilder(diagnostics, max_nodes(len(data)))
            built = builder.build(get_event)
            _look_ahead(text, builder.ended)
            root = built
            second = _next_document(get_event)
        except yaml.YAMLError as error:
            raise syntax_error(error, text) from None
    if isinstance(root, ScalarNode) and root.is_null:
        root = None
    return YamlDocument(root, diagnostics.sorted(), second)


def read_documents(data: bytes, diagnostics: Diagnostics) -> list[Node]:
    """Parse the non-empty documents in UTF-8 text, and add an error for each repeated key.

    Raises ParseError if a document is invalid or the documents exceed the limits, and TooManyErrors
    for too many repeated keys.
    """
    text = decode(data)
    get_event = _PARSER(data).get_event
    documents: list[Node] = []
    size = NOTHING
    try:
        for _ in range(MAX_DOCUMENTS):
            builder = DocumentBuilder(diagnostics, max_nodes(len(data)), size)
            root = builder.build(get_event)
            size = builder.size
            if root is not None:
                documents.append(root)
            if builder.is_last:
                return documents
    except yaml.YAMLError as error:
        raise syntax_error(error, text) from None
    raise ParseError(None, finding("too-many-documents", most=MAX_DOCUMENTS))


def _look_ahead(text: str, end: Any) -> None:
    """Scan past the document as far as go-yaml reads ahead, so that both reject the same files.

    Raises ParseError.
    """
    rest = text[end.index :]
    parser = _PARSER(rest.encode())
    try:
        for _ in range(_LOOKAHEAD_TOKENS):
            if isinstance(parser.get_token(), StreamEndToken):
                break
    except yaml.MarkedYAMLError as error:
        found = syntax_error(error, rest)
        at = found.position or Position(1, 1)
        column = at.column + (end.column if at.line == 1 else 0)
        raise ParseError(Position(end.line + at.line, column), found.finding) from None


def _next_document(get_event: Callable[[], Any]) -> Position | None:
    """Return the start of the next non-empty document."""
    start = None
    with suppress(yaml.YAMLError):  # ignore errors in later documents, which are not read
        while (event := get_event()) is not None:
            if isinstance(event, events.DocumentStartEvent):
                start = position(event.start_mark)
            elif not isinstance(event, events.DocumentEndEvent | events.StreamEndEvent) and not (
                isinstance(event, events.ScalarEvent) and not event.value
            ):
                return start
    return None
