"""Distinguished names (RFC 4514), parsed by the driver and compared without regard to spelling."""

import unicodedata
from typing import Final, Literal

import ldap
import ldap.dn

ParsedDn = list[list[tuple[str, str, int]]]
"""Components as the driver returns them, each of one or several attributes with their values."""
NormalizedDn = tuple[tuple[tuple[str, str], ...], ...]
"""The same for all spellings of a DN; the root's has no components."""

_SHORT_NAMES: Final = {
    "2.5.4.3": "cn", "commonname": "cn",
    "2.5.4.6": "c", "countryname": "c",
    "2.5.4.7": "l", "localityname": "l",
    "2.5.4.8": "st", "stateorprovincename": "st",
    "2.5.4.9": "street", "streetaddress": "street",
    "2.5.4.10": "o", "organizationname": "o",
    "2.5.4.11": "ou", "organizationalunitname": "ou",
    "0.9.2342.19200300.100.1.1": "uid", "userid": "uid",
    "0.9.2342.19200300.100.1.25": "dc", "domaincomponent": "dc",
}  # fmt: skip
"""RFC 4514, section 3, and RFC 4519."""


def parse_dn(text: str) -> ParsedDn | None:
    """Return the components of a DN, the last one of the text last; None if it is no DN."""
    try:
        parsed: ParsedDn = ldap.dn.str2dn(text)
    except (ldap.LDAPError, UnicodeError, ValueError):
        return None
    return parsed


def normalize(parsed: ParsedDn) -> NormalizedDn:
    """Return a DN for comparison.

    Case, spaces and width are dropped, as the attributes in DNs ignore them (RFC 4518).
    """
    return tuple(
        tuple(sorted((_short_name(attribute), _fold(value)) for attribute, value, _ in rdn))
        for rdn in parsed
    )


def _short_name(attribute: str) -> str:
    name = attribute.lower()
    return _SHORT_NAMES.get(name, name)


def _fold(value: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", value).split()).casefold()


class SearchBase:
    """The DN at which searches start, and how far below it they reach."""

    def __init__(self, dn: str, scope: Literal["base", "one", "sub"] = "sub") -> None:
        """Use a DN, which the settings have checked; that of the root is empty."""
        self._base = normalize(parse_dn(dn) or [])
        self._scope = scope

    def contains(self, dn: NormalizedDn) -> bool:
        """Return whether such a search may find an entry with this DN."""
        depth = len(dn) - len(self._base)
        if depth < 0 or dn[depth:] != self._base:
            return False
        return self._scope == "sub" or depth == (1 if self._scope == "one" else 0)

    def contains_entry(self, dn: str) -> bool:
        """Return the same for a text, which may be no DN."""
        parsed = parse_dn(dn)
        return parsed is not None and self.contains(normalize(parsed))
