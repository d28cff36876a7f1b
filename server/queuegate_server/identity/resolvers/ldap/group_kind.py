"""Builds search filters for the configured kinds of groups, and parses group DNs and names."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Literal, NamedTuple

import ldap

from queuegate_server.identity.resolvers.ldap.dn import ParsedDn, SearchBase, normalize, parse_dn
from queuegate_server.identity.resolvers.ldap.entry import LdapEntry
from queuegate_server.identity.resolvers.ldap.filters import escape
from queuegate_server.identity.resolvers.ldap.options import GroupOptions

_MAX_CACHED_DNS: Final = 65_536
_MAX_CACHED_CHARS: Final = 256
"""The maximum length of cached DNs; without it, the cache could grow to gigabytes."""


class GroupDn(NamedTuple):
    """The parsed form of a group's DN."""

    key: str
    """A key that is the same for all spellings of the DN."""
    is_below_base: bool
    """Whether the group is below `group_base`."""
    name: str | None
    """The group's name; None if the DN does not contain it and the entry must be read."""


class GroupKind:
    """One configured kind of group. Caches parsed DNs, because many users share groups."""

    def __init__(self, options: GroupOptions, name_case: Literal["preserve", "lower"]) -> None:
        """Create a kind of group. With `lower`, group names are lowercased."""
        self.options = options
        self._apply_case = str.lower if name_case == "lower" else str
        # Names taken from DNs need no attributes, because servers always return the DN.
        self.attributes: tuple[str, ...] = (
            (options.group_name_attribute,) if options.group_name_from == "attribute" else ("1.1",)
        )
        """The group attributes to request."""
        base = SearchBase(options.group_base or "")
        # Not a method, because a cached method would create a reference cycle.
        self._parse = partial(_parse, options, base, self._apply_case)
        self._parse_and_cache = lru_cache(maxsize=_MAX_CACHED_DNS)(self._parse)

    def parse(self, dn: str) -> GroupDn | None:
        """Parse a group's DN; return None for an invalid DN or the root DN. Raises UnusableData."""
        return (self._parse if len(dn) > _MAX_CACHED_CHARS else self._parse_and_cache)(dn)

    def name_in(self, entry: LdapEntry) -> str | None:
        """Return the group's name from its entry; None if the entry does not contain it."""
        values = entry.values(self.options.group_name_attribute)
        texts = sorted(filter(None, map(decode_value, values)))
        return self._apply_case(texts[0]) if texts else None

    def member_filters(self, members: list[str], rule: str = "") -> list[str]:
        """Return filters for groups that list any of the given members."""
        return [
            f"({attribute}{rule}={escape(member)})"
            for member in members
            for attribute in self.options.member_attribute
        ]


def _parse(
    options: GroupOptions, base: SearchBase, apply_case: Callable[[str], str], dn: str
) -> GroupDn | None:
    parsed = parse_dn(dn)
    if not parsed:
        return None
    normalized = normalize(parsed)
    name = _name_in(options, parsed)
    return GroupDn(
        repr(normalized), base.contains(normalized), None if name is None else apply_case(name)
    )


def _name_in(options: GroupOptions, parsed: ParsedDn) -> str | None:
    rdn = parsed[0]
    if options.group_name_from == "rdn":
        _, value, kind = rdn[0]
        return None if kind & ldap.AVA_BINARY else value
    wanted = options.group_name_attribute.lower()
    for attribute, value, kind in rdn:
        # Skip `#hex` values, because the driver does not decode them to text.
        if attribute.lower() == wanted and not kind & ldap.AVA_BINARY:
            return value
    return None


def decode_value(value: bytes) -> str | None:
    """Decode a value; return None if it is not valid UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
