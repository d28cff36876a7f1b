"""Decodes the values of known keys; reports unknown keys and values of the wrong type.

As go-yaml v3 does with known fields: null counts as absent, null items of a list are
dropped, and every single value is a text.
"""

import difflib
from collections.abc import Collection, Iterator
from typing import Final

from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.yaml_nodes import Mapping, Node, Scalar, Sequence
from queuegate_server.formats.yunikorn.model import Count
from queuegate_server.formats.yunikorn.values import floating, truth_value, unsigned

_LONGEST_KEY: Final = 64
_ALIKE: Final = 0.75
"""How similar, by difflib, a key must be to a known one to be taken for a misspelling."""
_REMEDIES: Final = {
    "a mapping": "write keys with values below it",
    "a list": "write items with a dash below it",
    "a text": "write a single value",
    "true or false": "write true or false, without quotes",
    "a number": "write a number, without quotes",
    "a whole number": "write a whole number from 0 on, without quotes",
}

_UNQUOTED: Final = frozenset({"true or false", "a number", "a whole number"})


class Fields:
    """Decodes nodes into what the model wants."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        """Take where to report to."""
        self._diagnostics = diagnostics
        self.queue = ""
        """The path of the queue that the diagnostics are about."""

    def entries(
        self, mapping: Mapping | None, known: Collection[str], what: str
    ) -> Iterator[tuple[str, Node]]:
        """Give the keys that are known and their values; report the other keys."""
        for key, (position, value) in mapping.entries.items() if mapping else ():
            if key in known:
                yield key, value
            else:
                self.unknown_key(position, known, what)

    def unknown_key(self, key: Scalar, known: Collection[str], what: str) -> None:
        """Report a key that YuniKorn does not know."""
        lower = key.text.lower()
        close = difflib.get_close_matches(lower[:_LONGEST_KEY], known, n=1, cutoff=_ALIKE)
        if lower in known:
            remedy = f"write {lower}"
        elif close:
            remedy = f"did you mean {close[0]}?"
        else:
            remedy = f"remove it; known keys are {', '.join(sorted(known))}"
        self._error(key, f"unknown key {quoted(key.text)} in {what}", remedy)

    def mapping(self, key: str, node: Node) -> Mapping | None:
        """Return a mapping; None if it is null or no mapping."""
        if isinstance(node, Mapping):
            return node
        self._wrong_type(key, node, "a mapping")
        return None

    def items(self, key: str, node: Node) -> list[Node] | None:
        """Return the items of a list that are not null; None if it is null or no list."""
        if isinstance(node, Sequence):
            return [item for item in node.items if not (isinstance(item, Scalar) and item.is_null)]
        self._wrong_type(key, node, "a list")
        return None

    def mappings(self, key: str, node: Node) -> list[Mapping]:
        """Return the items of a list of mappings."""
        found = []
        for item in self.items(key, node) or ():
            if isinstance(item, Mapping):
                found.append(item)
            else:
                self._wrong_type(f"an item of {key}", item, "a mapping")
        return found

    def text(self, key: str, node: Node) -> Scalar | None:
        """Return a text; None if it is null or no single value."""
        if isinstance(node, Scalar):
            return None if node.is_null else node
        self._wrong_type(key, node, "a text")
        return None

    def texts(self, key: str, node: Node) -> list[Scalar] | None:
        """Return a list of texts; None if it is null or no list."""
        items = self.items(key, node)
        if items is None:
            return None
        texts = (self.text(f"an item of {key}", item) for item in items)
        return [text for text in texts if text is not None]

    def text_map(self, key: str, node: Node) -> dict[str, Scalar] | None:
        """Return texts by name, null as an empty one; None if it is null or no mapping."""
        mapping = self.mapping(key, node)
        if mapping is None:
            return None
        texts = {}
        for name, (_, value) in mapping.entries.items():
            if isinstance(value, Scalar):
                empty = Scalar(value.line, value.column, "", plain=False)
                texts[name] = empty if value.is_null else value
            else:
                self._wrong_type(f"{key}.{name}", value, "a text")
        return texts

    def truth(self, key: str, node: Node) -> bool:
        """Return a truth value; False if it is null or none."""
        if isinstance(node, Scalar):
            if node.is_null:
                return False
            value = truth_value(node)
            if value is not None:
                return value
        self._wrong_type(key, node, "true or false")
        return False

    def count(self, key: str, node: Node) -> Count | None:
        """Return a number of applications; None if it is null or none."""
        if isinstance(node, Scalar):
            if node.is_null:
                return None
            value = unsigned(node)
            if value is not None:
                return Count(value, node)
        self._wrong_type(key, node, "a whole number")
        return None

    def float_map(self, key: str, node: Node) -> dict[str, tuple[float, Scalar]]:
        """Return numbers by name; null counts as 0."""
        mapping = self.mapping(key, node)
        numbers = {}
        for name, (_, value) in (mapping.entries if mapping else {}).items():
            number = None
            if isinstance(value, Scalar):
                number = 0.0 if value.is_null else floating(value)
                if number is not None:
                    numbers[name] = (number, value)
            if number is None:
                self._wrong_type(f"{key}.{name}", value, "a number")
        return numbers

    def _wrong_type(self, key: str, node: Node, wanted: str) -> None:
        if isinstance(node, Scalar):
            if node.is_null:
                return
            found = quoted(node.text)
            if not node.plain and wanted in _UNQUOTED:
                found = f"the quoted text {found}"
        else:
            found = "a list" if isinstance(node, Sequence) else "a mapping"
        self._error(node, f"{key} must be {wanted}, not {found}", _REMEDIES[wanted])

    def _error(self, node: Node, message: str, remedy: str) -> None:
        self._diagnostics.error(node, message, remedy, self.queue)
