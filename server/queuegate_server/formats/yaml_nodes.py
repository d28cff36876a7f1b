"""The nodes of a YAML document: values that know their position and keep their text."""

from dataclasses import dataclass, field
from typing import Final

_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(slots=True, eq=False)
class Scalar:
    """A single value, as it is written."""

    line: int
    column: int
    text: str
    plain: bool
    """True if it has no quotes, is no block and has no tag, so that it may mean a
    number, a truth value or nothing."""

    @property
    def is_null(self) -> bool:
        """True if it stands for no value: nothing at all, `~` or `null`."""
        return self.plain and self.text in _NULLS


@dataclass(slots=True, eq=False)
class Sequence:
    """A list."""

    line: int
    column: int
    items: list["Node"] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Mapping:
    """Keys and values, in order, with the merged ones last."""

    line: int
    column: int
    entries: dict[str, tuple[Scalar, "Node"]] = field(default_factory=dict)
    """By the text of the key: the key and its value."""

    def get(self, key: str) -> "Node | None":
        """Return the value of a key, or None if there is no such key."""
        entry = self.entries.get(key)
        return entry[1] if entry else None


Node = Scalar | Sequence | Mapping


def plain_data(node: Node | None) -> object:
    """Return a node as dicts, lists, texts and None, without the positions."""
    if isinstance(node, Mapping):
        return {key: plain_data(value) for key, (_, value) in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain_data(item) for item in node.items]
    if node is None or node.is_null:
        return None
    return node.text
