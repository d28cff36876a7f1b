"""Parses YAML into nodes with positions and source text.

Follows go-yaml v3, which YuniKorn uses: only the first document of a stream is read, repeated keys
are errors, `<<` merges, and scalars are not interpreted (`007`, `yes` and `2024-01-01` stay as
written). Unlike go-yaml, this reader rejects tags other than `!!str`, `!!seq` and `!!map`, and
limits the size, depth and number of nodes. Each alias counts as a copy of its target, so a small
text cannot become a large tree.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from yaml import events
from yaml.tokens import StreamEndToken

from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    ParseError,
    Position,
    Positioned,
    quoted,
)
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.source_text import MAX_BYTES, decode, split_lines
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH: Final = 200
"""The maximum nesting depth. Each queue level takes two nesting levels."""
MAX_DOCUMENTS: Final = 10_000
"""The maximum number of documents in a file."""
MIN_NODES: Final = 500_000
MAX_NODES: Final = 5_000_000
"""The maximum number of nodes, with aliases expanded, of any text. Each takes up to 500 bytes."""
BYTES_PER_NODE: Final = 6
"""The number of bytes that a text needs for each node beyond MIN_NODES. A policy whose queues have
only short names has a node for every seven bytes."""

_MERGE: Final = "<<"
_VERSION: Final = (1, 1)
# Only the loader's parser is used; it constructs no objects. CBaseLoader requires libyaml.
_PARSER: Final[Callable[[bytes], Any]] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_LOOKAHEAD_TOKENS: Final = 4
"""The number of tokens to scan: the start of the stream, and the three tokens that go-yaml v3 scans
for comments."""

_TAGS: Final = {
    "!": (ScalarNode, SequenceNode, MappingNode),
    "tag:yaml.org,2002:str": (ScalarNode,),
    "tag:yaml.org,2002:seq": (SequenceNode,),
    "tag:yaml.org,2002:map": (MappingNode,),
}


class _Size(NamedTuple):
    """The size of a node with aliases expanded."""

    nodes: int
    characters: int


_NOTHING: Final = _Size(0, 0)


@dataclass(slots=True, eq=False)
class _OpenNode:
    """A list or mapping whose end has not been parsed yet."""

    node: SequenceNode | MappingNode
    anchor: str | None
    size_before: _Size
    key: ScalarNode | None = None
    """The key in a mapping whose value is parsed next."""
    merge_key: ScalarNode | None = None
    """The key `<<`."""
    merged: list[Node] = field(default_factory=list)


class _Builder:
    """Builds the tree of one document, without recursion."""

    def __init__(
        self, diagnostics: Diagnostics, max_nodes: int, size_before: _Size = _NOTHING
    ) -> None:
        """`size_before` is the preceding documents' size. Limits apply to the whole file."""
        self._diagnostics = diagnostics
        self._max_nodes = max_nodes
        self._top = SequenceNode(0, 0)
        self._open = [_OpenNode(self._top, None, _NOTHING)]
        self._anchors: dict[str, tuple[Node, _Size | None]] = {}
        self._nodes, self._characters = size_before
        self.ended: Any = None
        """The mark at the end of the document; set by `build`."""
        self.is_last = False
        """Whether this is the last document in the text; set by `build`."""
        # Identical scalars share one string, so names derived from them use less memory.
        self._texts: dict[str, str] = {}

    @property
    def size(self) -> _Size:
        """The combined size of this document and the preceding documents."""
        return _Size(self._nodes, self._characters)

    def build(self, get_event: Callable[[], Any]) -> Node | None:
        """Parse one document, and return its root, or None if the document is empty.

        Raises ParseError for invalid YAML, and TooManyErrors for too many repeated keys.
        """
        # A local variable, because an attribute would form a reference cycle and keep all nodes in
        # memory until garbage collection.
        handlers: dict[type, Callable[[Any], None]] = {
            events.DocumentStartEvent: self._begin,
            events.AliasEvent: self._alias,
            events.SequenceStartEvent: lambda event: self._start(SequenceNode, event),
            events.MappingStartEvent: lambda event: self._start(MappingNode, event),
            events.SequenceEndEvent: self._end,
            events.MappingEndEvent: self._end,
        }
        scalar_event, texts, max_nodes = events.ScalarEvent, self._texts, self._max_nodes
        while True:
            event = get_event()
            kind = event.__class__
            if kind is scalar_event:
                # Inlined for speed, because most events are scalars.
                value, tag, mark = event.value, event.tag, event.start_mark
                text = texts.setdefault(value, value)
                plain = tag is None and not event.style
                node = ScalarNode(mark.line + 1, mark.column + 1, text, plain)
                if tag is not None:
                    self._check_tag(tag, node)
                if "?" in text and not event.style and self._open[-1].node.is_flow:
                    raise ParseError(node, finding("question-mark-in-word"))
                self._nodes += 1
                self._characters += len(text)
                if self._nodes > max_nodes or self._characters > MAX_BYTES:
                    self._count(0, 0, node)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (node, _Size(1, len(text)))
                self._add(node)
            elif kind in handlers:
                handlers[kind](event)
            elif kind is events.DocumentEndEvent or kind is events.StreamEndEvent:
                self.ended = event.start_mark
                self.is_last = kind is events.StreamEndEvent
                return self._top.items[0] if self._top.items else None

    def _begin(self, event: Any) -> None:
        if event.version not in {None, _VERSION}:
            raise ParseError(_position(event.start_mark), finding("yaml-version"))

    def _start(self, kind: type[SequenceNode | MappingNode], event: Any) -> None:
        mark, is_flow = event.start_mark, bool(event.flow_style)
        node = kind(mark.line + 1, mark.column + 1, is_flow=is_flow)
        if event.tag is not None:
            self._check_tag(event.tag, node)
        if len(self._open) > MAX_DEPTH:
            raise ParseError(node, finding("deep-yaml", most=MAX_DEPTH))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, None)
        size = _Size(self._nodes, self._characters)
        self._open.append(_OpenNode(node, event.anchor, size))
        self._count(1, 0, node)

    def _end(self, _event: Any) -> None:
        done = self._open.pop()
        if isinstance(done.node, MappingNode):
            self._merge(done.node, done.merged)
        if done.anchor is not None:
            nodes, characters = done.size_before
            size = _Size(self._nodes - nodes, self._characters - characters)
            self._anchors[done.anchor] = (done.node, size)
        self._add(done.node)

    def _alias(self, event: Any) -> None:
        position = _position(event.start_mark)
        name = event.anchor
        if name not in self._anchors:
            raise ParseError(position, finding("alias-without-anchor"))
        node, size = self._anchors[name]
        if size is None:
            raise ParseError(position, finding("anchor-in-itself"))
        self._count(*size, position)
        self._add(node)

    def _count(self, nodes: int, characters: int, position: Positioned) -> None:
        self._nodes += nodes
        self._characters += characters
        if self._nodes > self._max_nodes:
            raise ParseError(position, finding("too-many-nodes", most=self._max_nodes))
        if self._characters > MAX_BYTES:
            raise ParseError(position, finding("too-long-with-aliases", most=MAX_BYTES))

    def _add(self, node: Node) -> None:
        parent = self._open[-1]
        container = parent.node
        if isinstance(container, SequenceNode):
            container.items.append(node)
            return
        key = parent.key
        if key is None:
            parent.key = self._key(node)
            return
        parent.key = None
        text = key.text
        first = container.entries[text][0] if text in container.entries else None
        if text == _MERGE and (first := first or parent.merge_key) is None and key.plain:
            parent.merge_key = key
            parent.merged = node.items if isinstance(node, SequenceNode) else [node]
        elif first is not None:
            remedy = phrase("merge-a-list") if text == _MERGE else ""
            found = finding("repeated-key", key=quoted(text), line=first.line, remedy=remedy)
            self._diagnostics.add(key, found)
        else:
            container.entries[text] = (key, node)

    def _key(self, node: Node) -> ScalarNode:
        if isinstance(node, ScalarNode) and not node.is_null:
            return node
        fault = "missing" if isinstance(node, ScalarNode) else "a list or a mapping"
        raise ParseError(node, finding("invalid-key", fault=fault))

    def _merge(self, mapping: MappingNode, merged: list[Node]) -> None:
        for node in merged:
            if not isinstance(node, MappingNode):
                raise ParseError(node, finding("merge-of-other-values"))
            for key, entry in node.entries.items():
                mapping.entries.setdefault(key, entry)

    def _check_tag(self, tag: str, node: Node) -> None:
        if not isinstance(node, _TAGS.get(tag, ())):
            raise ParseError(node, finding("tag"))


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
    """Return how many nodes a text may have. `size` is its number of bytes."""
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
            builder = _Builder(diagnostics, max_nodes(len(data)))
            built = builder.build(get_event)
            _look_ahead(text, builder.ended)
            root = built
            second = _next_document(get_event)
        except yaml.YAMLError as error:
            raise _syntax_error(error, text) from None
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
    size = _NOTHING
    try:
        for _ in range(MAX_DOCUMENTS):
            builder = _Builder(diagnostics, max_nodes(len(data)), size)
            root = builder.build(get_event)
            size = builder.size
            if root is not None:
                documents.append(root)
            if builder.is_last:
                return documents
    except yaml.YAMLError as error:
        raise _syntax_error(error, text) from None
    raise ParseError(None, finding("too-many-documents", most=MAX_DOCUMENTS))


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


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
        syntax_error = _syntax_error(error, rest)
        at = syntax_error.position or Position(1, 1)
        position = Position(end.line + at.line, at.column + (end.column if at.line == 1 else 0))
        raise ParseError(position, syntax_error.finding) from None


def _next_document(get_event: Callable[[], Any]) -> Position | None:
    """Return the start of the next non-empty document."""
    start = None
    with suppress(yaml.YAMLError):  # ignore errors in later documents, which are not read
        while (event := get_event()) is not None:
            if isinstance(event, events.DocumentStartEvent):
                start = _position(event.start_mark)
            elif not isinstance(event, events.DocumentEndEvent | events.StreamEndEvent) and not (
                isinstance(event, events.ScalarEvent) and not event.value
            ):
                return start
    return None


def _syntax_error(error: yaml.YAMLError, text: str) -> ParseError:
    if not isinstance(error, yaml.MarkedYAMLError) or not (
        mark := error.problem_mark or error.context_mark
    ):
        return ParseError(None, finding("invalid-yaml", why=error))
    position = _position(mark)
    lines = split_lines(text)
    rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    if error.context and "alias" in error.context and error.context_mark:
        return ParseError(_position(error.context_mark), finding("unquoted-wildcard"))
    if rest.startswith("\t"):
        return ParseError(position, finding("tab"))
    if rest.startswith("?") and error.context and " flow " in error.context:
        return ParseError(position, finding("question-mark-in-word"))
    if error.problem == "found unexpected ':'":
        return ParseError(position, finding("colon-after-word"))
    why = f"{error.problem}"
    if error.context:
        why = f"{why}, {error.context}"
        if error.context_mark and error.context_mark.line != mark.line:
            why = f"{why} that starts on line {error.context_mark.line + 1}"
    return ParseError(position, finding("invalid-yaml", why=why))
