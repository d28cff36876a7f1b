"""YAML nodes with their source text and position."""

from dataclasses import dataclass, field
from typing import Final

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True, eq=False)
class ScalarNode:
    """A scalar. Its text is kept as written, not interpreted."""

    line: int
    column: int
    text: str
    plain: bool
    """Whether the scalar is unquoted, untagged and not a block, and hence may be a number, bool or
    null."""

    @property
    def is_null(self) -> bool:
        """Whether the scalar is null: empty, or an unquoted `~` or `null`."""
        return self.plain and self.text in _NULLS


@dataclass(slots=True, eq=False)
class SequenceNode:
    """A list."""

    line: int
    column: int
    items: list["Node"] = field(default_factory=list)
    is_flow: bool = False
    """Whether it is written within brackets."""


@dataclass(slots=True, eq=False)
class MappingNode:
    """A mapping in source order, with merged keys last."""

    line: int
    column: int
    entries: dict[str, tuple[ScalarNode, "Node"]] = field(default_factory=dict)
    """The key and value nodes by key."""
    is_flow: bool = False
    """Whether it is written within braces."""

    def get(self, key: str) -> "Node | None":
        """Return the key's value node, or None if the key is absent."""
        entry = self.entries.get(key)
        return entry[1] if entry else None


Node = ScalarNode | SequenceNode | MappingNode


def plain_data(node: Node | None) -> object:
    """Convert the node to dicts, lists, strings and None."""
    if isinstance(node, MappingNode):
        return {key: plain_data(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, SequenceNode):
        return [plain_data(item) for item in node.items]
    if node is None or node.is_null:
        return None
    return node.text
