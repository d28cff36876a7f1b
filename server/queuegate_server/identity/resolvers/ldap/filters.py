"""The filters with which lookups find users and groups.

`options.user_filter` and `options.group_filter` determine which entries are users and groups; the
presets' filters are in presets.toml. Lookups combine `group_filter` with what they look for:
members, names, or the primary group.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from queuegate_server.identity.resolvers.ldap.filter_syntax import (
    BadFilter,
    assertions,
    parenthesize,
)

POSIX_GROUPS: Final = "(objectClass=posixGroup)"
IN_CHAIN: Final = ":1.2.840.113556.1.4.1941:"
"""The matching rule by which Active Directory follows nested groups (MS-ADTS 3.1.1.3.4.4.3)."""

_PLACEHOLDER: Final = re.compile(r"\{user\}|%s")
"""Matches a placeholder for the user's name: queuegate's `{user}` or YuniKorn's `%s`."""
_MAX_PARTS: Final = 100
_MAX_PARTS_CHARS: Final = 32_768
_ESCAPES: Final = {ord(char): f"\\{ord(char):02x}" for char in "\\*()\0"}
_RID_BYTES: Final = 4
_MAX_RID: Final = 2**32
_MAX_RID_DIGITS: Final = 10
_MIN_SID_BYTES: Final = 12


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


def all_of(*parts: str) -> str:
    """Return the conjunction of filters."""
    return f"(&{''.join(parts)})"


def equals(attribute: str, value: str) -> str:
    """Return the filter for entries that have a value."""
    return f"({attribute}={escape(value)})"


def member_filters(attributes: Iterable[str], members: Sequence[str], rule: str = "") -> list[str]:
    """Return filters for groups that list any of the given members.

    Args:
        attributes: The attributes that list members.
        members: DNs, or user names if groups list names.
        rule: `IN_CHAIN` to also find the groups that contain the members through other groups.
    """
    return [equals(f"{attribute}{rule}", member) for member in members for attribute in attributes]


def ad_primary_group_filter(numbers: list[bytes], sids: list[bytes]) -> str | None:
    """Return the filter for an Active Directory user's primary group.

    The user's SID and the group's SID differ only in the last number (MS-ADTS 3.1.1.1.3,
    MS-DTYP 2.4.2).

    Args:
        numbers: The values of the user's primaryGroupID.
        sids: The values of the user's objectSid.

    Returns:
        The filter; None if the values are not usable.
    """
    number = numbers[0] if len(numbers) == 1 else b""
    sid = sids[0] if len(sids) == 1 else b""
    is_rid = number.isdigit() and len(number) <= _MAX_RID_DIGITS and int(number) < _MAX_RID
    if not is_rid or len(sid) < _MIN_SID_BYTES:
        return None
    group = sid[:-_RID_BYTES] + int(number).to_bytes(_RID_BYTES, "little")
    return f"(objectSid={escape_bytes(group)})"


def or_deleted(filter_text: str, kind: str) -> str:
    """Return a filter that also finds deleted entries of a class, in Active Directory."""
    return f"(|{filter_text}(&(isDeleted=TRUE)(objectClass={kind})))"


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
