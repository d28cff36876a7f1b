"""Names of groups and of entries, read as distinguished names and never by splitting text."""

from functools import lru_cache
from typing import Final, NamedTuple

import ldap
import ldap.dn

from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Entry

_KEPT: Final = 65_536

_Dn = tuple[tuple[tuple[str, str], ...], ...]
"""Components, each of one or several attributes with their values."""


class NotADn(ValueError):
    """A text is no distinguished name, or that of the root."""


class GroupDn(NamedTuple):
    """What the distinguished name of a group says."""

    key: str
    """The same for all spellings of the name."""
    counts: bool
    """Whether the group is below `group_base`."""
    name: str | None
    """The group's name; None if it must be read from the entry."""


class GroupDns:
    """Reads names of groups, and remembers them: many users share few groups."""

    def __init__(self, options: LdapOptions) -> None:
        self._options = options
        self.of = lru_cache(maxsize=_KEPT)(self._of)
        """Returns what a DN says. Raises NotADn."""

    def name_of(self, entry: Entry) -> str | None:
        """Return the name of a group that was read; None if it has none."""
        try:
            name = self.of(entry.dn).name
        except NotADn:
            name = None
        if name is not None or self._options.group_name_from == "rdn":
            return name
        values = entry.values(self._options.group_name_attribute)
        texts = sorted(filter(None, map(text_of, values)))
        return self._cased(texts[0]) if texts else None

    def _of(self, dn: str) -> GroupDn:
        parsed = _parsed(dn)
        if not parsed:
            raise NotADn(dn)
        normal = _normal(parsed)
        base = self._options.group_base
        top = _normal(_parsed(base)) if base else ()
        counts = not top or normal[-len(top) :] == top
        return GroupDn(repr(normal), counts, self._name_in(parsed))

    def _name_in(self, parsed: _Dn) -> str | None:
        rdn = parsed[0]
        if self._options.group_name_from == "rdn":
            return self._cased(rdn[0][1])
        wanted = self._options.group_name_attribute.lower()
        for kind, value in rdn:
            if kind.lower() == wanted:
                return self._cased(value)
        return None

    def _cased(self, name: str) -> str:
        return name.lower() if self._options.name_case == "lower" else name


def text_of(value: bytes) -> str | None:
    """Return a value as text; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _parsed(dn: str) -> _Dn:
    try:
        return tuple(tuple((kind, value) for kind, value, _ in rdn) for rdn in ldap.dn.str2dn(dn))
    except (ldap.LDAPError, UnicodeError, ValueError):
        raise NotADn(dn) from None


def _normal(parsed: _Dn) -> _Dn:
    """Return a DN to compare. Case and spaces do not count: group DNs are made of attributes
    that ignore them.
    """
    return tuple(
        tuple(sorted((kind.lower(), " ".join(value.split()).casefold()) for kind, value in rdn))
        for rdn in parsed
    )
