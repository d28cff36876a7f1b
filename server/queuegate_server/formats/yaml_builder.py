"""Builds the tree of a YAML document from the events of PyYAML's parser, within limits.

Each alias counts as a copy of its target, so a small text cannot become a large tree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from yaml import events

from queuegate_server.formats.diagnostics import (
    Diagnostics,
    ParseError,
    Position,
    Positioned,
    quoted,
)
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.source_text import MAX_BYTES
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_DEPTH: Final = 200
"""The maximum nesting depth. Each queue level takes two nesting levels."""

_MERGE: Final = "<<"
_VERSION: Final = (1, 1)
_TAGS: Final = {
    "!": (ScalarNode, SequenceNode, MappingNode),
    "tag:yaml.org,2002:str": (ScalarNode,),
    "tag:yaml.org,2002:seq": (SequenceNode,),
    "tag:yaml.org,2002:map": (MappingNode,),
}


def position(mark: Any) -> Position:
    """Return the position of one of PyYAML's marks, which count from 0."""
    return Position(mark.line + 1, mark.column + 1)


class Size(NamedTuple):
    """The size of a node with aliases expanded."""

    nodes: int
    characters: int


NOTHING: Final = Size(0, 0)


@dataclass(slots=True, eq=False)
class _OpenNode:
    """A list or mapping whose end has not been parsed yet."""

    node: SequenceNode | MappingNode
    anchor: str | None
    size_before: Size
    key: ScalarNode | None = None
    """The key in a mapping whose value is parsed next."""
    merge_key: ScalarNode | None = None
    """The key `<<`."""
    merged: list[Node] = field(default_factory=list)


class DocumentBuilder:
    """Builds the tree of one document from its events, without recursion."""

    def __init__(
        self, diagnostics: Diagnostics, max_nodes: int, size_before: Size = NOTHING
    ) -> None:
        """`size_before` is the preceding documents' size. Limits apply to the whole file."""
        self._diagnostics = diagnostics
        self._max_nodes = max_nodes
        self._top = SequenceNode(0, 0)
        self._open = [_OpenNode(self._top, None, NOTHING)]
        self._anchors: dict[str, tuple[Node, Size | None]] = {}
        self._nodes, self._characters = size_before
        self.ended: Any = None
        """The mark at the end of the document; set by `build`."""
        self.is_last = False
        """Whether this is the last document in the text; set by `build`."""
        # Identical scalars share one string, so names derived from them use less memory.
        self._texts: dict[str, str] = {}

    @property
    def size(self) -> Size:
        """The combined size of this document and the preceding documents."""
        return Size(self._nodes, self._characters)

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
                    self._check_limits(node)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (node, Size(1, len(text)))
                self._add(node)
            elif kind in handlers:
                handlers[kind](event)
            elif kind is events.DocumentEndEvent or kind is events.StreamEndEvent:
                self.ended = event.start_mark
                self.is_last = kind is events.StreamEndEvent
                return self._top.items[0] if self._top.items else None

    def _begin(self, event: Any) -> None:
        if event.version not in {None, _VERSION}:
            raise ParseError(position(event.start_mark), finding("yaml-version"))

    def _start(self, kind: type[SequenceNode | MappingNode], event: Any) -> None:
        mark, is_flow = event.start_mark, bool(event.flow_style)
        node = kind(mark.line + 1, mark.column + 1, is_flow=is_flow)
        if event.tag is not None:
            self._check_tag(event.tag, node)
        if len(self._open) > MAX_DEPTH:
            raise ParseError(node, finding("deep-yaml", most=MAX_DEPTH))
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, None)
        size = Size(self._nodes, self._characters)
        self._open.append(_OpenNode(node, event.anchor, size))
        self._count(1, 0, node)

    def _end(self, _event: Any) -> None:
        done = self._open.pop()
        if isinstance(done.node, MappingNode):
            self._merge(done.node, done.merged)
        if done.anchor is not None:
            nodes, characters = done.size_before
            size = Size(self._nodes - nodes, self._characters - characters)
            self._anchors[done.anchor] = (done.node, size)
        self._add(done.node)

    def _alias(self, event: Any) -> None:
        at = position(event.start_mark)
        name = event.anchor
        if name not in self._anchors:
            raise ParseError(at, finding("alias-without-anchor"))
        node, size = self._anchors[name]
        if size is None:
            raise ParseError(at, finding("anchor-in-itself"))
        self._count(*size, at)
        self._add(node)

    def _count(self, nodes: int, characters: int, at: Positioned) -> None:
        self._nodes += nodes
        self._characters += characters
        self._check_limits(at)

    def _check_limits(self, at: Positioned) -> None:
        if self._nodes > self._max_nodes:
            raise ParseError(at, finding("too-many-nodes", most=self._max_nodes))
        if self._characters > MAX_BYTES:
            raise ParseError(at, finding("too-long-with-aliases", most=MAX_BYTES))

    def _add(self, node: Node) -> None:
        """Add a finished node to the innermost open list or mapping.

        Merged mappings wait until the mapping's end, because its own keys take precedence.
        """
        parent = self._open[-1]
        container, key = parent.node, parent.key
        if isinstance(container, SequenceNode):
            container.items.append(node)
            return
        if key is None:
            parent.key = self._key(node)
            return
        parent.key = None
        is_merge = key.text == _MERGE
        first = container.entries[key.text][0] if key.text in container.entries else None
        if first is None and is_merge:
            first = parent.merge_key
        if first is not None:
            remedy = phrase("merge-a-list") if is_merge else ""
            found = finding("repeated-key", key=quoted(key.text), line=first.line, remedy=remedy)
            self._diagnostics.add(key, found)
        elif is_merge and key.plain:
            parent.merge_key = key
            parent.merged = node.items if isinstance(node, SequenceNode) else [node]
        else:
            container.entries[key.text] = (key, node)

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
