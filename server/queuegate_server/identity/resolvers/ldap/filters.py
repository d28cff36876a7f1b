"""Parses the search filters (RFC 4515) in the settings, and inserts user names safely."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

_PLACEHOLDER: Final = re.compile(r"\{user\}|%s")
"""Matches a placeholder for the user's name: queuegate's `{user}` or YuniKorn's `%s`."""
MAX_DEPTH: Final = 32
MAX_CHARS: Final = 8192
_ATTRIBUTE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)(?:;[A-Za-z0-9-]+)*"
_ITEM: Final = re.compile(
    rf"(?P<attribute>{_ATTRIBUTE})?(?P<rule>(?::dn)?(?::{_ATTRIBUTE})?(?=:=):)?"
    r"(?P<operator>[~<>]?=)(?P<value>(?:[^\0()\\]|\\[0-9A-Fa-f]{2})*)"
)
_MAX_PARTS: Final = 100
_MAX_PARTS_CHARS: Final = 32_768
_ESCAPES: Final = {ord(char): f"\\{ord(char):02x}" for char in "\\*()\0"}


class BadFilter(ValueError):
    """The filter is invalid. The message is a predicate, such as "is too long"."""


class Assertion(NamedTuple):
    """A comparison in a filter."""

    attribute: str
    operator: str
    """`=`, `~=`, `>=`, `<=`, or a matching rule ending in `:=`."""
    value: str
    """The value as written, including escapes and placeholders."""


def escape(text: str) -> str:
    """Escape text for use as a literal value in a filter."""
    return text.translate(_ESCAPES)


def escape_bytes(value: bytes) -> str:
    """Escape bytes for use as a literal value in a filter."""
    return "".join(f"\\{byte:02x}" for byte in value)


def any_of(parts: Iterable[str]) -> Iterator[str]:
    """Yield disjunctions of the given filters, each small enough for servers to accept."""
    chunk: list[str] = []
    length = 0
    for part in parts:
        if chunk and (len(chunk) == _MAX_PARTS or length + len(part) > _MAX_PARTS_CHARS):
            yield f"(|{''.join(chunk)})"
            chunk, length = [], 0
        chunk.append(part)
        length += len(part)
    if chunk:
        yield chunk[0] if len(chunk) == 1 else f"(|{''.join(chunk)})"


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
        raise BadFilter(f"continues after its last parenthesis, at character {end + 1}")
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


class UserFilter:
    """A filter with placeholders for the user's name."""

    def __init__(self, text: str) -> None:
        """Parse a filter. Raises BadFilter if it is invalid or has no placeholder."""
        self._parts = _PLACEHOLDER.split(parenthesize(text))
        if len(set(_PLACEHOLDER.findall(text))) > 1:
            raise BadFilter("mixes %s and {user}; use one of them")
        parsed = assertions(parenthesize(text))
        self._names = tuple(
            assertion for assertion in parsed if _PLACEHOLDER.search(assertion.value)
        )
        if sum(len(_PLACEHOLDER.findall(name.value)) for name in self._names) != (
            len(self._parts) - 1
        ):
            raise BadFilter("has {user} outside a value")
        if not self._names:
            raise BadFilter(
                "does not compare anything with the user: insert {user}, as in (uid={user})"
            )
        for name in self._names:
            if name.operator != "=" or "*" in name.value:
                raise BadFilter(f"must compare {name.attribute} with the user for equality")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes compared with the user's name."""
        return tuple(dict.fromkeys(name.attribute for name in self._names))

    def for_user(self, user: str) -> str:
        """Return the filter for a user, with the name escaped."""
        return escape(user).join(self._parts)

    def for_anyone(self) -> str:
        """Return the filter that matches all users."""
        return "*".join(self._parts)

    def users(self, values: Callable[[str], Iterable[str]], *, fold: bool) -> tuple[str, ...]:
        """Return all user names with which the filter would match an entry.

        `values` returns the entry's values for an attribute. If `fold` is set, the filter's text
        around the placeholder is compared ignoring case.
        """
        names: dict[str, None] = {}
        for name in self._names:
            first, *others = (re.escape(_unescape(part)) for part in _PLACEHOLDER.split(name.value))
            pattern = f"{first}(?P<user>.+){'(?P=user)'.join(others)}"
            flags = re.DOTALL | (re.IGNORECASE if fold else 0)
            for value in values(name.attribute):
                if match := re.fullmatch(pattern, value, flags):
                    names[match["user"]] = None
        return tuple(names)

    def expected(self, user: str) -> tuple[tuple[str, str], ...]:
        """Return (attribute, value) pairs, at least one of which the user's entry must contain."""
        return tuple(
            (name.attribute, user.join(map(_unescape, _PLACEHOLDER.split(name.value))))
            for name in self._names
        )


def _unescape(value: str) -> str:
    raw = re.sub(
        rb"\\([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), value.encode()
    )
    return raw.decode("utf-8", "replace")
