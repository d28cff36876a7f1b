"""YAML events -> nodes: builds the tree of one document, within bounds.

An alias counts for all that it stands for, so that a small text cannot become a large tree.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from yaml import events

from queuegate_server.formats.diagnostics import Diagnostics, Positioned, quoted
from queuegate_server.formats.yaml_nodes import Mapping, Node, Scalar, Sequence
from queuegate_server.formats.yaml_text import MAX_BYTES, ParseError, Position

MAX_DEPTH: Final = 200
"""Levels of nesting; a level of queues takes two."""
MAX_NODES: Final = 5_000_000
"""Keys, values, lists and mappings; what an alias stands for counts each time."""

_MERGE: Final = "<<"
_VERSION: Final = (1, 1)
_TAGS: Final = {
    "!": (Scalar, Sequence, Mapping),
    "tag:yaml.org,2002:str": (Scalar,),
    "tag:yaml.org,2002:seq": (Sequence,),
    "tag:yaml.org,2002:map": (Mapping,),
}


class _Size(NamedTuple):
    """How large something is when all aliases in it are spelled out."""

    nodes: int
    characters: int


@dataclass(slots=True, eq=False)
class _Open:
    """A list or mapping whose end was not seen yet."""

    node: Sequence | Mapping
    anchor: str | None
    before: "_Size"
    key: Scalar | None = None
    """In a mapping: the key whose value comes next."""
    merged: list[Node] = field(default_factory=list)


class Builder:
    """Builds the tree of one document, without recursion."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Take where repeated keys are noted."""
        self._diagnostics = diagnostics
        self._top = Sequence(0, 0)
        self._open = [_Open(self._top, None, _Size(0, 0))]
        self._anchors: dict[str, tuple[Node, _Size | None]] = {}
        self._nodes = 0
        self._characters = 0
        self.ended: Any = None
        """The position of the end of the document, once it is built."""
        # Equal texts are kept once: the names built from them take less memory.
        self._texts: dict[str, str] = {}

    def build(self, get_event: Callable[[], Any]) -> Node | None:
        """Return the root of the document that the parser's events begin with; None if it is
        empty. Raises ParseError and TooManyErrors.
        """
        # Not an attribute: in a cycle, the nodes would stay until the collector stops
        # every thread to find them.
        handlers: dict[type, Callable[[Any], None]] = {
            events.DocumentStartEvent: self._begin,
            events.AliasEvent: self._alias,
            events.SequenceStartEvent: lambda event: self._start(Sequence, event),
            events.MappingStartEvent: lambda event: self._start(Mapping, event),
            events.SequenceEndEvent: self._end,
            events.MappingEndEvent: self._end,
        }
        scalar_event, texts = events.ScalarEvent, self._texts
        while True:
            event = get_event()
            kind = event.__class__
            if kind is scalar_event:
                # Most of a document is scalars: what is usual about them takes no call.
                value, tag, mark = event.value, event.tag, event.start_mark
                text = texts.setdefault(value, value)
                plain = tag is None and not event.style
                node = Scalar(mark.line + 1, mark.column + 1, text, plain)
                if tag is not None:
                    self._check_tag(tag, node)
                self._nodes += 1
                self._characters += len(text)
                if self._nodes > MAX_NODES or self._characters > MAX_BYTES:
                    self._count(0, 0, node)
                if event.anchor is not None:
                    self._anchors[event.anchor] = (node, _Size(1, len(text)))
                self._add(node)
            elif kind in handlers:
                handlers[kind](event)
            elif kind is events.DocumentEndEvent or kind is events.StreamEndEvent:
                self.ended = event.start_mark
                return self._top.items[0] if self._top.items else None

    def _begin(self, event: Any) -> None:
        if event.version not in {None, _VERSION}:
            position = Position(event.start_mark.line + 1, event.start_mark.column + 1)
            message = "only YAML 1.1 is read here, as in YuniKorn"
            raise ParseError(position, message, "remove the %YAML line")

    def _start(self, kind: type[Sequence | Mapping], event: Any) -> None:
        node = kind(event.start_mark.line + 1, event.start_mark.column + 1)
        if event.tag is not None:
            self._check_tag(event.tag, node)
        if len(self._open) > MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} levels deep"
            raise ParseError(node, message, "flatten the document")
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, None)
        self._open.append(_Open(node, event.anchor, _Size(self._nodes, self._characters)))
        self._count(1, 0, node)

    def _end(self, _event: Any) -> None:
        done = self._open.pop()
        if isinstance(done.node, Mapping):
            self._merge(done.node, done.merged)
        if done.anchor is not None:
            nodes, characters = done.before
            size = _Size(self._nodes - nodes, self._characters - characters)
            self._anchors[done.anchor] = (done.node, size)
        self._add(done.node)

    def _alias(self, event: Any) -> None:
        position = Position(event.start_mark.line + 1, event.start_mark.column + 1)
        name = event.anchor
        if name not in self._anchors:
            message = f"the alias *{name} has no anchor &{name} above it"
            raise ParseError(position, message, "define the anchor, or put the text in quotes")
        node, size = self._anchors[name]
        if size is None:
            raise ParseError(
                position, f"the anchor &{name} contains itself", "remove the alias inside it"
            )
        self._count(*size, position)
        self._add(node)

    def _count(self, nodes: int, characters: int, position: Positioned) -> None:
        self._nodes += nodes
        self._characters += characters
        if self._nodes > MAX_NODES:
            message = f"the document has more than {MAX_NODES} keys and values"
            raise ParseError(position, message, "split it; write fewer aliases")
        if self._characters > MAX_BYTES:
            message = f"with its aliases the document is larger than {MAX_BYTES} characters"
            raise ParseError(position, message, "split it; write fewer aliases")

    def _add(self, node: Node) -> None:
        parent = self._open[-1]
        container = parent.node
        if isinstance(container, Sequence):
            container.items.append(node)
            return
        key = parent.key
        if key is None:
            parent.key = self._key(node)
            return
        parent.key = None
        text = key.text
        if text == _MERGE and key.plain:
            parent.merged.append(node)
        elif text in container.entries:
            first = container.entries[text][0].line
            message = f"the key {quoted(text)} is repeated; it stands in line {first} already"
            self._diagnostics.error(key, message, "keep one of them")
        else:
            container.entries[text] = (key, node)

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar) and not node.is_null:
            return node
        message = "a key is missing" if isinstance(node, Scalar) else "a key is a list or a mapping"
        raise ParseError(node, message, "write a text as the key, before its colon")

    def _merge(self, mapping: Mapping, merged: list[Node]) -> None:
        for node in merged:
            for source in node.items if isinstance(node, Sequence) else [node]:
                if not isinstance(source, Mapping):
                    message = "<< merges something that is no mapping"
                    raise ParseError(source, message, "merge an alias of a mapping")
                for key, entry in source.entries.items():
                    mapping.entries.setdefault(key, entry)

    def _check_tag(self, tag: str, node: Node) -> None:
        if not isinstance(node, _TAGS.get(tag, ())):
            message = f"the tag {quoted(tag)} is not supported here"
            raise ParseError(node, message, "remove the tag; quote a value that is a text")
