"""Names of groups, parsed from distinguished names and never split from text."""

from functools import lru_cache
from typing import Final, NamedTuple

import ldap
import ldap.dn

from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import LdapEntry

_MAX_ENTRIES: Final = 65_536

_Dn = list[list[tuple[str, str, int]]]
"""Components as the driver returns them, each of one or several attributes with their values."""


class GroupDn(NamedTuple):
    """The distinguished name of a group."""

    key: str
    """The same for all spellings of the DN."""
    is_below_base: bool
    """Whether the group is below `group_base`."""
    name: str | None
    """The group's name; None if it must be read from the entry."""


class GroupDns:
    """Parses the DNs of groups, and caches them: many users share few groups."""

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self.parse = lru_cache(maxsize=_MAX_ENTRIES)(self._parse)
        """Returns a GroupDn; None if the text is no DN, or that of the root."""

    def name_of(self, entry: LdapEntry) -> str | None:
        """Return the name of a group whose entry was read; None if it has none."""
        dn = self.parse(entry.dn)
        name = dn.name if dn else None
        if name is not None or self._options.group_name_from == "rdn":
            return name
        values = entry.values(self._options.group_name_attribute)
        texts = sorted(filter(None, map(decode_value, values)))
        return self._apply_case(texts[0]) if texts else None

    def _parse(self, dn: str) -> GroupDn | None:
        try:
            parsed = ldap.dn.str2dn(dn)
            base = ldap.dn.str2dn(self._options.group_base or "")
        except (ldap.LDAPError, UnicodeError, ValueError):
            return None
        if not parsed:
            return None
        normalized, suffix = _normalize(parsed), _normalize(base)
        is_below_base = not suffix or normalized[-len(suffix) :] == suffix
        return GroupDn(repr(normalized), is_below_base, self._name_in(parsed))

    def _name_in(self, parsed: _Dn) -> str | None:
        rdn = parsed[0]
        if self._options.group_name_from == "rdn":
            return self._apply_case(rdn[0][1])
        wanted = self._options.group_name_attribute.lower()
        for attribute, value, _ in rdn:
            if attribute.lower() == wanted:
                return self._apply_case(value)
        return None

    def _apply_case(self, name: str) -> str:
        return name.lower() if self._options.name_case == "lower" else name


def decode_value(value: bytes) -> str | None:
    """Return a value as text; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _normalize(parsed: _Dn) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return a DN for comparison.

    Case and spaces are dropped: the attributes in DNs of groups ignore them.
    """
    return tuple(
        tuple(
            sorted(
                (attribute.lower(), " ".join(value.split()).casefold())
                for attribute, value, _ in rdn
            )
        )
        for rdn in parsed
    )
