"""The nodes of a YAML document: their source texts and positions."""

from dataclasses import dataclass, field
from typing import Final

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True, eq=False)
class ScalarNode:
    """A scalar, as written."""

    line: int
    column: int
    text: str
    plain: bool
    """True if the scalar has no quotes, block style or tag, so that it may be a number, a boolean
    or null."""

    @property
    def is_null(self) -> bool:
        """True for an empty text, `~` and `null`."""
        return self.plain and self.text in _NULLS


@dataclass(slots=True, eq=False)
class SequenceNode:
    """A list."""

    line: int
    column: int
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MappingNode:
    """A mapping in source order, with merged keys last."""

    line: int
    column: int
    entries: dict[str, tuple[ScalarNode, "Node"]] = field(default_factory=dict)
    """The key and value nodes, by the text of the key."""

    def get(self, key: str) -> "Node | None":
        """Return the value of a key, or None if the key is absent."""
        entry = self.entries.get(key)
        return entry[1] if entry else None


Node = ScalarNode | SequenceNode | MappingNode


def plain_data(node: Node | None) -> object:
    """Return a node as dicts, lists, texts and None, without positions."""
    if isinstance(node, MappingNode):
        return {key: plain_data(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, SequenceNode):
        return [plain_data(item) for item in node.items]
    if node is None or node.is_null:
        return None
    return node.text
