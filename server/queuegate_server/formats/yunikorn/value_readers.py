"""Decodes the values of known keys, and reports unknown keys and wrong types.

The rules follow go-yaml v3 with `KnownFields` enabled (`resolve.go`, and `scalar` in `decode.go`):
null means absent, null list items are dropped, a text field accepts any scalar as written, and
bool, uint64 and float64 fields have their own grammars.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from queuegate.policy.names import similar_name
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.table import finding, phrase
from queuegate_server.formats.suspicious_names import intended_key
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_UINT64: Final = 2**64 - 1

_WHOLE_DOCUMENTS: Final = frozenset({"the document", "the file"})
_UNQUOTED: Final = frozenset({"boolean-expected", "number-expected", "whole-number-expected"})

_BOOLEANS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_QUOTED_BOOLEANS: Final = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
"""YAML 1.1 words that are booleans even in quotes."""

_INTEGER: Final = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES: Final = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_NUMBER_LENGTH: Final = 400
_NUMBER_STARTS: Final = tuple("+-.0123456789")
_NUMBER_WORDS: Final = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}

ValueReader = Callable[["Fields", str, Node], Any]
Readers = Mapping[str, tuple[str, ValueReader]]
"""The model attribute and the reader for each key. The attribute is empty if the value is only
type-checked."""


class Count(NamedTuple):
    """A number of applications. 0 means unlimited."""

    value: int
    position: Node | None


NO_COUNT: Final = Count(0, None)


class Fields:
    """Decodes YAML nodes into values for the model, and reports invalid nodes."""

    def __init__(
        self, diagnostics: Diagnostics, elsewhere: Callable[[str, str, str], str] | None = None
    ) -> None:
        """Create a decoder.

        Args:
            diagnostics: Receives the faults.
            elsewhere: Returns the remedy for an unknown key that belongs in another place, given
                the key, the mapping that contains it, and the partition; "" for other keys.
        """
        self._diagnostics = diagnostics
        self._elsewhere = elsewhere
        self.partition = "NAME"
        """The name of the partition that is decoded, for use in remedies."""
        self.queue = ""
        """The queue path shown in diagnostics."""

    def values(self, mapping: MappingNode | None, readers: Readers, what: str) -> dict[str, Any]:
        """Decode a mapping's values, and return them by attribute.

        `what` names the mapping in diagnostics.
        """
        values = {}
        for key, (position, node) in mapping.entries.items() if mapping else ():
            reader = readers.get(key)
            if reader is None:
                is_alone = bool(mapping and mapping.is_flow) and _is_empty(node)
                self._report_unknown_key(position, readers, what, is_alone=is_alone)
                continue
            attribute, read = reader
            value = read(self, key, node)
            if attribute:
                values[attribute] = value
        return values

    def _report_unknown_key(
        self, key: ScalarNode, known: Collection[str], what: str, *, is_alone: bool
    ) -> None:
        """`is_alone` says whether the key has no value, like `bob` in `{submitacl: ann, bob}`."""
        lower = key.text.lower()
        if lower in known:
            remedy = phrase("write", text=lower)
        elif is_alone:
            remedy = phrase("value-with-comma")
        elif self._elsewhere and (place := self._elsewhere(lower, what, self.partition)):
            remedy = place
        elif meant := (
            intended_key(lower, "submitacl", "adminacl") if "submitacl" in known else ""
        ) or similar_name(lower, known):
            remedy = phrase("did-you-mean", meant=meant)
        else:
            remedy = ""
        names = ", ".join(sorted(known))
        found = finding("unknown-key", key=quoted(key.text), what=what, known=names, remedy=remedy)
        self._diagnostics.add(key, found, self.queue)

    def mapping(self, key: str, node: Node) -> MappingNode | None:
        """Return the node as a mapping; None if it is null or invalid."""
        if isinstance(node, MappingNode):
            return node
        self._report_wrong_type(key, node, "mapping-expected")
        return None

    def items(self, key: str, node: Node) -> list[Node] | None:
        """Return the non-null items of the list; None if it is null or invalid."""
        if isinstance(node, SequenceNode):
            return [
                item for item in node.items if not (isinstance(item, ScalarNode) and item.is_null)
            ]
        self._report_wrong_type(key, node, "list-expected")
        return None

    def mappings(self, key: str, node: Node) -> list[MappingNode]:
        """Return the mappings in the list, reporting all other items."""
        mappings = []
        for item in self.items(key, node) or ():
            if isinstance(item, MappingNode):
                mappings.append(item)
            else:
                self._report_wrong_type(f"an item of {key}", item, "mapping-expected")
        return mappings

    def text(self, key: str, node: Node, remedy: str = "") -> ScalarNode | None:
        """Return the node as text; None if it is null or invalid."""
        if isinstance(node, ScalarNode):
            return None if node.is_null else node
        self._report_wrong_type(key, node, "text-expected", remedy)
        return None

    def texts(self, key: str, node: Node) -> list[ScalarNode] | None:
        """Return the strings in the list; None if the list is null or invalid."""
        items = self.items(key, node)
        if items is None:
            return None
        texts = (self.text(f"an item of {key}", item) for item in items)
        return [text for text in texts if text is not None]

    def text_map(self, key: str, node: Node) -> dict[str, ScalarNode] | None:
        """Return the mapping's strings (null becomes ""); None if the mapping is null or
        invalid.
        """
        mapping = self.mapping(key, node)
        if mapping is None:
            return None
        texts = {}
        for name, (_, value) in mapping.entries.items():
            if isinstance(value, ScalarNode):
                empty = ScalarNode(value.line, value.column, "", plain=False)
                texts[name] = empty if value.is_null else value
            else:
                self._report_wrong_type(f"{key}.{name}", value, "text-expected")
        return texts

    def boolean(self, key: str, node: Node) -> bool:
        """Return the node as a boolean; False if it is null or invalid."""
        value = boolean(node) if isinstance(node, ScalarNode) else None
        if value is None:
            self._report_wrong_type(key, node, "boolean-expected")
        return value or False

    def count(self, key: str, node: Node) -> Count:
        """Return the node as a number of applications; NO_COUNT if it is null or invalid."""
        value = unsigned(node) if isinstance(node, ScalarNode) else None
        if value is None:
            self._report_wrong_type(key, node, "whole-number-expected")
            return NO_COUNT
        return Count(value, node)

    def float_map(self, key: str, node: Node) -> dict[str, tuple[float, ScalarNode]]:
        """Return the mapping's numbers. Null becomes 0, and invalid numbers are omitted."""
        mapping = self.mapping(key, node)
        numbers = {}
        for name, (_, value) in (mapping.entries if mapping else {}).items():
            number = None
            if isinstance(value, ScalarNode):
                number = 0.0 if value.is_null else floating(value)
                if number is not None:
                    numbers[name] = (number, value)
            if number is None:
                self._report_wrong_type(f"{key}.{name}", value, "number-expected")
        return numbers

    def _report_wrong_type(self, key: str, node: Node, expected: str, remedy: str = "") -> None:
        """Report a value of the wrong type, unless it is null. `expected` is the finding."""
        if isinstance(node, ScalarNode):
            if node.is_null:
                return
            # Do not quote a document that is a single scalar; it may be a key or token passed by
            # mistake.
            actual = "text" if key in _WHOLE_DOCUMENTS else quoted(node.text)
            if not node.plain and expected in _UNQUOTED:
                actual = f"the quoted text {actual}"
        else:
            actual = "a list" if isinstance(node, SequenceNode) else "a mapping"
        found = finding(expected, key=key, actual=actual, remedy=remedy)
        self._diagnostics.add(node, found, self.queue)


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.plain and not node.text


def boolean(node: ScalarNode) -> bool | None:
    """Parse a boolean; None if it is invalid."""
    value = _BOOLEANS.get(node.text) if node.plain else None
    return _QUOTED_BOOLEANS.get(node.text) if value is None else value


def unsigned(node: ScalarNode) -> int | None:
    """Parse a number from 0 to 2^64 - 1, rounding down; None if it is invalid."""
    value = _number(node)
    if value is None or not 0 <= value <= MAX_UINT64:
        return None
    return int(value)


def floating(node: ScalarNode) -> float | None:
    """Parse a floating-point number; None if it is invalid."""
    value = _number(node)
    return None if value is None else float(value)


def _number(node: ScalarNode) -> int | float | None:
    """Return the number that go-yaml reads from a scalar; None if it reads none."""
    text = node.text
    if not node.plain or len(text) > _MAX_NUMBER_LENGTH or not text.startswith(_NUMBER_STARTS):
        return None
    digits = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer:
        kind = integer.lastgroup or "decimal"
        value = int(integer["sign"] + integer[kind], _BASES[kind])
        if -(2**63) <= value <= (2**63 - 1 if integer["sign"] else MAX_UINT64):
            return value
    if _FLOAT.fullmatch(digits):
        value_as_float = float(digits)
        return None if math.isinf(value_as_float) else value_as_float
    return _NUMBER_WORDS.get(text)
