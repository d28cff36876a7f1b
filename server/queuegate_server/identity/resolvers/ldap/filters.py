"""Search filters by RFC 4515: parsed when the settings are read, filled in safely later."""

import re
from typing import Final, NamedTuple

_PLACEHOLDER: Final = re.compile(r"\{user\}|%s")
"""Ours and YuniKorn's; they mean the same."""
_DEEPEST: Final = 32
_LONGEST: Final = 8192
_ATTRIBUTE: Final = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)(?:;[A-Za-z0-9-]+)*"
_ITEM: Final = re.compile(
    rf"(?P<attribute>{_ATTRIBUTE})?(?P<rule>(?::dn)?(?::{_ATTRIBUTE})?(?=:=):)?"
    r"(?P<operator>[~<>]?=)(?P<value>(?:[^\0()\\]|\\[0-9A-Fa-f]{2})*)"
)
_ESCAPES: Final = {ord(char): f"\\{ord(char):02x}" for char in "\\*()\0"}


class BadFilter(ValueError):
    """A text is no filter; the message says where and why."""


class Assertion(NamedTuple):
    """One comparison of a filter."""

    attribute: str
    operator: str
    """`=`, `~=`, `>=`, `<=`, or one that ends in `:=` for a matching rule."""
    value: str
    """As written, escapes and placeholders included."""


def escape(text: str) -> str:
    """Return a text as the value of a comparison that matches nothing but this text."""
    return text.translate(_ESCAPES)


def escape_bytes(value: bytes) -> str:
    """Return bytes as the value of a comparison."""
    return "".join(f"\\{byte:02x}" for byte in value)


def enclosed(text: str) -> str:
    """Return a filter in the brackets that `uid=%s` lacks and directories forgive."""
    text = text.strip()
    return text if text.startswith("(") else f"({text})"


def assertions(text: str) -> tuple[Assertion, ...]:
    """Return the comparisons of a filter. Raises BadFilter if it is none."""
    if len(text) > _LONGEST:
        raise BadFilter(f"is longer than {_LONGEST} characters")
    found: list[Assertion] = []
    end = _filter(text, 0, 0, found)
    if end != len(text):
        raise BadFilter(f"goes on after its last bracket, at character {end + 1}")
    return tuple(found)


def _filter(text: str, at: int, depth: int, found: list[Assertion]) -> int:
    """Read the filter that begins at a position; return the position after it."""
    if depth > _DEEPEST:
        raise BadFilter(f"is nested deeper than {_DEEPEST} levels")
    _expect(text, at, "(")
    at += 1
    operator = text[at : at + 1]
    if operator in ("&", "|"):
        at += 1
        while text[at : at + 1] == "(":
            at = _filter(text, at, depth + 1, found)
    elif operator == "!":
        at = _filter(text, at + 1, depth + 1, found)
    else:
        at = _item(text, at, found)
    _expect(text, at, ")")
    return at + 1


def _item(text: str, at: int, found: list[Assertion]) -> int:
    match = _ITEM.match(text, at)
    if match is None or not (match["attribute"] or match["rule"]):
        raise BadFilter(f"has no comparison such as uid={{user}} at character {at + 1}")
    operator = f"{match['rule'] or ''}{match['operator']}"
    found.append(Assertion(match["attribute"] or "", operator, match["value"]))
    return match.end()


def _expect(text: str, at: int, char: str) -> None:
    if text[at : at + 1] != char:
        raise BadFilter(f"needs `{char}` at character {at + 1}")


class UserFilter:
    """A filter with places for the user's name."""

    def __init__(self, text: str) -> None:
        """Parse the filter. Raises BadFilter, also if no comparison names the user."""
        self._parts = _PLACEHOLDER.split(enclosed(text))
        if len(set(_PLACEHOLDER.findall(text))) > 1:
            raise BadFilter("mixes %s and {user}; use one of them")
        parsed = assertions(enclosed(text))
        self._names = tuple(
            assertion for assertion in parsed if _PLACEHOLDER.search(assertion.value)
        )
        if sum(len(_PLACEHOLDER.findall(name.value)) for name in self._names) != (
            len(self._parts) - 1
        ):
            raise BadFilter("has {user} where no value stands")
        if not self._names:
            raise BadFilter("compares nothing with the user; put {user} in, as in (uid={user})")
        for name in self._names:
            if name.operator != "=" or "*" in name.value:
                raise BadFilter(f"must compare {name.attribute} with the user for equality")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are compared with the user."""
        return tuple(dict.fromkeys(name.attribute for name in self._names))

    def for_user(self, user: str) -> str:
        """Return the filter that finds this user, whatever characters the name holds."""
        return escape(user).join(self._parts)

    def expected(self, user: str) -> tuple[tuple[str, str], ...]:
        """Return which attribute must hold which text in the user's entry, one of them."""
        return tuple(
            (name.attribute, user.join(map(_unescape, _PLACEHOLDER.split(name.value))))
            for name in self._names
        )


def _unescape(value: str) -> str:
    raw = re.sub(
        rb"\\([0-9A-Fa-f]{2})", lambda match: bytes.fromhex(match[1].decode()), value.encode()
    )
    return raw.decode("utf-8", "replace")
