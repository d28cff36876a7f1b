"""Parses the search filters (RFC 4515) in the settings."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_DEPTH: Final = 32
MAX_CHARS: Final = 8192
_ATTRIBUTE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)(?:;[A-Za-z0-9-]+)*"
_ITEM: Final = re.compile(
    rf"(?P<attribute>{_ATTRIBUTE})?(?P<rule>(?::dn)?(?::{_ATTRIBUTE})?(?=:=):)?"
    r"(?P<operator>[~<>]?=)(?P<value>(?:[^\0()\\]|\\[0-9A-Fa-f]{2})*)"
)


class BadFilter(ValueError):
    """The filter is invalid. The message is a predicate, such as "is too long"."""


class Assertion(NamedTuple):
    """A comparison in a filter."""

    attribute: str
    operator: str
    """`=`, `~=`, `>=`, `<=`, or a matching rule ending in `:=`."""
    value: str
    """The value as written, including escapes and placeholders."""


def parenthesize(text: str) -> str:
    """Add missing outer parentheses, because directories accept filters such as `uid=%s`."""
    text = text.strip()
    return text if text.startswith("(") else f"({text})"


class _Combination(NamedTuple):
    operator: str
    """`&`, `|` or `!`."""
    parts: "list[_Combination | Assertion]"


def assertions(text: str) -> tuple[Assertion, ...]:
    """Return the comparisons in a filter. Raises BadFilter."""
    return tuple(_comparisons(_parse(text)))


def missing_attributes(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return a filter's unknown attributes if they prevent the filter from matching any entry.

    `known` contains lowercase names. A comparison with an unknown attribute is undefined (RFC 4511,
    4.5.1.7). A conjunction with such a comparison cannot be true; a disjunction can be true if
    another operand can be true.
    """
    tree = _parse(text)
    if _can_match(tree, known):
        return ()
    names = (comparison.attribute for comparison in _comparisons(tree))
    return tuple(dict.fromkeys(name for name in names if not _is_known(name, known)))


def _is_known(attribute: str, known: frozenset[str]) -> bool:
    return not attribute or attribute.partition(";")[0].lower() in known


def _can_match(node: "_Combination | Assertion", known: frozenset[str]) -> bool:
    if isinstance(node, Assertion):
        return _is_known(node.attribute, known)
    several = any if node.operator == "|" else all
    return several(_can_match(part, known) for part in node.parts)


def _comparisons(node: "_Combination | Assertion") -> Iterator[Assertion]:
    if isinstance(node, Assertion):
        yield node
    else:
        for part in node.parts:
            yield from _comparisons(part)


def _parse(text: str) -> "_Combination | Assertion":
    if len(text) > MAX_CHARS:
        raise BadFilter(f"is longer than {MAX_CHARS} characters")
    end, node = _filter(text, 0, 0)
    if end != len(text):
        raise BadFilter(f"has text after its closing parenthesis, at character {end + 1}")
    return node


def _filter(text: str, at: int, depth: int) -> "tuple[int, _Combination | Assertion]":
    """Parse the filter at position `at`; return its end position and the parsed filter."""
    if depth > MAX_DEPTH:
        raise BadFilter(f"is nested deeper than {MAX_DEPTH} levels")
    _expect(text, at, "(")
    at += 1
    operator = text[at : at + 1]
    node: _Combination | Assertion
    if operator in ("&", "|", "!"):
        node = _Combination(operator, [])
        at += 1
        if operator == "!":
            _expect(text, at, "(")
        while text[at : at + 1] == "(" and not (operator == "!" and node.parts):
            at, part = _filter(text, at, depth + 1)
            node.parts.append(part)
    else:
        at, node = _item(text, at)
    _expect(text, at, ")")
    return at + 1, node


def _item(text: str, at: int) -> tuple[int, Assertion]:
    match = _ITEM.match(text, at)
    if match is None or not (match["attribute"] or match["rule"]):
        raise BadFilter(f"has no comparison such as uid={{user}} at character {at + 1}")
    operator = f"{match['rule'] or ''}{match['operator']}"
    return match.end(), Assertion(match["attribute"] or "", operator, match["value"])


def _expect(text: str, at: int, char: str) -> None:
    if text[at : at + 1] != char:
        raise BadFilter(f"needs `{char}` at character {at + 1}")
