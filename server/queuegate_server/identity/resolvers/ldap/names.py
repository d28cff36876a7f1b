"""Names of groups and of entries, read as distinguished names and never by splitting text."""

from functools import lru_cache
from typing import Final

import ldap
import ldap.dn

from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.search import Entry

_KEPT: Final = 65_536

Rdn = tuple[tuple[str, str], ...]
"""Attribute and value of each part of the first component of a DN."""
NormalDn = tuple[Rdn, ...]
"""A DN in the one spelling in which equal ones are equal."""


class NotADn(ValueError):
    """A text is no distinguished name."""


@lru_cache(maxsize=_KEPT)
def first_rdn(dn: str) -> Rdn:
    """Return the parts of a DN's first component, unescaped. Raises NotADn."""
    parsed = _parsed(dn)
    if not parsed:
        raise NotADn(dn)
    return parsed[0]


@lru_cache(maxsize=_KEPT)
def normal(dn: str) -> NormalDn:
    """Return a DN to compare and remember. Raises NotADn.

    Case and spaces do not count: group DNs are made of attributes that ignore them.
    """
    return tuple(
        tuple(sorted((kind.lower(), " ".join(value.split()).casefold()) for kind, value in rdn))
        for rdn in _parsed(dn)
    )


@lru_cache(maxsize=_KEPT)
def is_below(dn: str, base: str) -> bool:
    """Say whether a DN is that of the base or of an entry below it. Raises NotADn."""
    top = normal(base)
    return not top or normal(dn)[-len(top) :] == top


def _parsed(dn: str) -> NormalDn:
    try:
        return tuple(tuple((kind, value) for kind, value, _ in rdn) for rdn in ldap.dn.str2dn(dn))
    except (ldap.LDAPError, UnicodeError, ValueError):
        raise NotADn(dn) from None


def name_in_dn(dn: str, options: LdapOptions) -> str | None:
    """Return a group's name if its DN holds it, else None. Raises NotADn."""
    rdn = first_rdn(dn)
    if options.group_name_from == "rdn":
        return _cased(rdn[0][1], options)
    wanted = options.group_name_attribute.lower()
    for kind, value in rdn:
        if kind.lower() == wanted:
            return _cased(value, options)
    return None


def name_of(entry: Entry, options: LdapOptions) -> str | None:
    """Return the name of a group that was read; None if it has none."""
    try:
        name = name_in_dn(entry.dn, options)
    except NotADn:
        name = None
    if name is not None or options.group_name_from == "rdn":
        return name
    texts = sorted(filter(None, map(text_of, entry.values(options.group_name_attribute))))
    return _cased(texts[0], options) if texts else None


def text_of(value: bytes) -> str | None:
    """Return a value as text; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _cased(name: str, options: LdapOptions) -> str:
    return name.lower() if options.name_case == "lower" else name
