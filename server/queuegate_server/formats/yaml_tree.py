"""YAML text -> nodes that know their place and keep the text of their scalars.

The reader to agree with is go-yaml v3, with which YuniKorn reads its configuration:
only the first document of a stream is read, a repeated key is a fault, `<<` merges,
and what a scalar means is left to whoever asks for it (`007`, `yes` and `2024-01-01`
stay as they are written). Unlike it, tags other than `!!str`, `!!seq` and `!!map` are
refused, and size, depth and number of nodes are bounded.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from yaml import events
from yaml.tokens import StreamEndToken

from queuegate_server.formats.findings import Findings, Place, TooManyErrors, quoted
from queuegate_server.formats.problems import Problem
from queuegate_server.formats.yaml_nodes import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    plain_data,
)
from queuegate_server.formats.yaml_text import (
    MAX_BYTES,
    At,
    Unreadable,
    decode,
    source_lines,
    split_lines,
)
from queuegate_server.giving_way import give_way

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_NODES",
    "Document",
    "Mapping",
    "Node",
    "Scalar",
    "Sequence",
    "plain_data",
    "read",
    "source_lines",
]

MAX_DEPTH: Final = 200
"""Levels of nesting; a level of queues takes two."""
MAX_NODES: Final = 5_000_000
"""Keys, values, lists and mappings; what an alias stands for counts each time."""

_MOST_TEXTS: Final = 20_000
_SCALARS_IN_TURN: Final = 0b111111
"""A scalar gives way where these bits of the number of nodes are 0."""

# Only the parsing half of these classes is used. The first one needs libyaml.
_PARSER: Final[Callable[[bytes], Any]] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MERGE: Final = "<<"
_LOOKED_AT: Final = 4
"""The start of the stream, and what go-yaml v3 scans to find comments: three tokens."""
_VERSION: Final = (1, 1)
_TAGS: Final = {
    "!": (Scalar, Sequence, Mapping),
    "tag:yaml.org,2002:str": (Scalar,),
    "tag:yaml.org,2002:seq": (Sequence,),
    "tag:yaml.org,2002:map": (Mapping,),
}


@dataclass(frozen=True, slots=True)
class Document:
    """What was read."""

    root: Node | None
    """None if the document is empty or null, or if it cannot be read."""
    problems: tuple[Problem, ...]
    """The errors: repeated keys and the like if there is a root, else why there is none."""
    second: At | None = None
    """Where the next document that is not empty starts; it is not read."""


def read(data: bytes, file: str) -> Document:
    """Read the first document of a stream of UTF-8 text. No input makes it raise.

    `file` is the name that the problems show.
    """
    findings = Findings(file)
    root = None
    second = None
    try:
        text = decode(data)
        try:
            get_event = _PARSER(data).get_event
            builder = _Builder(findings)
            built = builder.build(get_event)
            _look_ahead(text, builder.ended)
            root = built
            second = _next_document(get_event)
        except yaml.MarkedYAMLError as error:
            raise _syntax_fault(error, text) from None
        except yaml.YAMLError as error:
            raise Unreadable(None, f"not valid YAML: {error}", _CHECK_SYNTAX) from None
    except Unreadable as fault:
        with suppress(TooManyErrors):
            findings.error(fault.place, fault.message, fault.remedy)
    except TooManyErrors:
        pass
    if isinstance(root, Scalar) and root.is_null:
        root = None
    return Document(root, findings.in_order(), second)


def _place(event: Any) -> At:
    return At(event.start_mark.line + 1, event.start_mark.column + 1)


def _look_ahead(text: str, end: Any) -> None:
    """Scan as much behind the end of the first document as go-yaml does, which refuses the
    whole text for a fault in it. Raises Unreadable.
    """
    rest = text[end.index :]
    parser = _PARSER(rest.encode())
    try:
        for _ in range(_LOOKED_AT):
            if isinstance(parser.get_token(), StreamEndToken):
                break
    except yaml.MarkedYAMLError as error:
        fault = _syntax_fault(error, rest)
        at = fault.place or At(1, 1)
        place = At(end.line + at.line, at.column + (end.column if at.line == 1 else 0))
        raise Unreadable(place, fault.message, fault.remedy) from None


def _next_document(get_event: Callable[[], Any]) -> At | None:
    """Return where the next document that is not empty starts, after the end of one."""
    start = None
    with suppress(yaml.YAMLError):  # what is not read may be wrong
        while (event := get_event()) is not None:
            if isinstance(event, events.DocumentStartEvent):
                start = _place(event)
            elif not isinstance(event, events.DocumentEndEvent | events.StreamEndEvent) and not (
                isinstance(event, events.ScalarEvent) and not event.value
            ):
                return start
    return None


_CHECK_SYNTAX: Final = "check quotes, brackets and indentation, here and in the lines above"


def _syntax_fault(error: yaml.MarkedYAMLError, text: str) -> Unreadable:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Unreadable(None, f"not valid YAML: {error}", _CHECK_SYNTAX)
    place = At(mark.line + 1, mark.column + 1)
    lines = split_lines(text)
    rest = lines[mark.line][mark.column :] if mark.line < len(lines) else ""
    if error.context and "alias" in error.context and error.context_mark:
        start = At(error.context_mark.line + 1, error.context_mark.column + 1)
        message = 'an unquoted "*" starts a YAML alias'
        return Unreadable(start, message, 'put the value in quotes, the wildcard as "*"')
    if rest.startswith("\t"):
        return Unreadable(place, "a tab stands where YAML allows none", "use blanks to indent")
    message = f"not valid YAML: {error.problem}"
    if error.context:
        message = f"{message}, {error.context}"
        if error.context_mark and error.context_mark.line != mark.line:
            message = f"{message} that starts in line {error.context_mark.line + 1}"
    return Unreadable(place, message, _CHECK_SYNTAX)


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


class _Builder:
    """Builds the tree from the parser's events, without recursion."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._top = Sequence(0, 0)
        self._open = [_Open(self._top, None, _Size(0, 0))]
        self._anchors: dict[str, tuple[Node, _Size | None]] = {}
        self._nodes = 0
        self._characters = 0
        self.ended: Any = None
        """The place of the end of the document, once it is built."""
        # Equal texts are kept once, unless far apart; what is built from them compares faster.
        self._texts: dict[str, str] = {}

    def build(self, get_event: Callable[[], Any]) -> Node | None:
        """Build the first document. Scalars are most of a document, so they come first, and
        what is usual about them without a call.
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
                value, tag, mark = event.value, event.tag, event.start_mark
                text = texts.setdefault(value, value)
                plain = tag is None and not event.style
                node = Scalar(mark.line + 1, mark.column + 1, text, plain)
                if tag is not None:
                    self._check_tag(tag, node)
                self._nodes += 1
                if not self._nodes & _SCALARS_IN_TURN:
                    give_way()
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
            message = "only YAML 1.1 is read here, as in YuniKorn"
            raise Unreadable(_place(event), message, "remove the %YAML line")

    def _start(self, kind: type[Sequence | Mapping], event: Any) -> None:
        give_way()
        if len(self._texts) > _MOST_TEXTS:
            self._texts.clear()  # other threads would wait while it grows
        node = kind(event.start_mark.line + 1, event.start_mark.column + 1)
        if event.tag is not None:
            self._check_tag(event.tag, node)
        if len(self._open) > MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} levels deep"
            raise Unreadable(node, message, "flatten the document")
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
        place = _place(event)
        name = event.anchor
        if name not in self._anchors:
            message = f"the alias *{name} has no anchor &{name} above it"
            raise Unreadable(place, message, "define the anchor, or put the text in quotes")
        node, size = self._anchors[name]
        if size is None:
            raise Unreadable(
                place, f"the anchor &{name} contains itself", "remove the alias inside it"
            )
        self._count(*size, place)
        self._add(node)

    def _count(self, nodes: int, characters: int, place: Place) -> None:
        self._nodes += nodes
        self._characters += characters
        if self._nodes > MAX_NODES:
            message = f"the document has more than {MAX_NODES} keys and values"
            raise Unreadable(place, message, "split it; write fewer aliases")
        if self._characters > MAX_BYTES:
            message = f"with its aliases the document is larger than {MAX_BYTES} characters"
            raise Unreadable(place, message, "split it; write fewer aliases")

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
            self._findings.error(key, message, "keep one of them")
        else:
            container.entries[text] = (key, node)

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar) and not node.is_null:
            return node
        message = "a key is missing" if isinstance(node, Scalar) else "a key is a list or a mapping"
        raise Unreadable(node, message, "write a text as the key, before its colon")

    def _merge(self, mapping: Mapping, merged: list[Node]) -> None:
        for node in merged:
            for source in node.items if isinstance(node, Sequence) else [node]:
                if not isinstance(source, Mapping):
                    message = "<< merges something that is no mapping"
                    raise Unreadable(source, message, "merge an alias of a mapping")
                for key, entry in source.entries.items():
                    mapping.entries.setdefault(key, entry)

    def _check_tag(self, tag: str, node: Node) -> None:
        if not isinstance(node, _TAGS.get(tag, ())):
            message = f"the tag {quoted(tag)} is not supported here"
            raise Unreadable(node, message, "remove the tag; quote a value that is a text")
