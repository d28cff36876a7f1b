"""Parses distinguished names (RFC 4514) using the driver. Compares them regardless of spelling."""

import unicodedata
from collections.abc import Sequence
from typing import Final, Literal

import ldap
import ldap.dn

from queuegate_server.identity.resolvers.ldap.errors import UnusableData

MAX_DN_BYTES: Final = 8192
"""The maximum length of a DN, as in OpenLDAP. The driver's parsing time is quadratic in the number
of components, so a DN with 300 000 of them would block the process for seconds."""

ParsedDn = list[list[tuple[str, str, int]]]
"""DN components as returned by the driver, each with one or more attributes and values."""
NormalizedDn = tuple[tuple[tuple[str, str], ...], ...]
"""A DN in a form that is the same for all spellings. The root DN has no components."""

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
"""Short attribute names by OID and alias (RFC 4514, section 3, and RFC 4519)."""


def long_dn(length: int) -> UnusableData:
    """Return the fault for an overlong DN of `length` bytes."""
    return UnusableData(
        f"the directory sent a DN of {length} bytes, but the limit is {MAX_DN_BYTES}",
        "shorten it: it belongs to a user or group, or an attribute that lists them contains it",
    )


def parse_dn(text: str) -> ParsedDn | None:
    """Parse a DN into components, in textual order; return None if it is invalid.

    Raises UnusableData if the DN is too long.
    """
    if len(text) > MAX_DN_BYTES:
        raise long_dn(len(text))
    try:
        parsed: ParsedDn = ldap.dn.str2dn(text)
    except (ldap.LDAPError, UnicodeError, ValueError):
        return None
    return parsed


def normalize(parsed: ParsedDn) -> NormalizedDn:
    """Normalize case, spaces and character width, which DN comparison ignores (RFC 4518)."""
    return tuple(
        tuple(sorted((short_name(attribute), _fold(value)) for attribute, value, _ in rdn))
        for rdn in parsed
    )


def short_name(attribute: str) -> str:
    """Return an attribute's short name in lowercase, given its OID, alias or name."""
    name = attribute.lower()
    return _SHORT_NAMES.get(name, name)


def _fold(value: str) -> str:
    text = " ".join(unicodedata.normalize("NFKC", value).split())
    if text.isascii():
        return text.lower()
    # Each character alone, as directories do: casefold() makes "ss" of "ß", and the result of
    # lower() for a sigma depends on the letters around it.
    return "".join(map(str.lower, text))


class SearchBase:
    """The base DNs and scope of searches."""

    def __init__(
        self, dns: str | Sequence[str], scope: Literal["base", "one", "sub"] = "sub"
    ) -> None:
        """Create a search base from at least one valid DN. An empty string is the root DN."""
        self.dns: Final = (dns,) if isinstance(dns, str) else tuple(dns)
        self.scope: Final = scope
        self._bases = tuple(normalize(parse_dn(dn) or []) for dn in self.dns)

    def contains(self, dn: NormalizedDn) -> bool:
        """Return whether a search below this base may return an entry with the given DN."""
        return any(
            (depth := len(dn) - len(base)) >= 0
            and dn[depth:] == base
            and (self.scope == "sub" or depth == (1 if self.scope == "one" else 0))
            for base in self._bases
        )

    def contains_entry(self, dn: str) -> bool:
        """Parse a DN and return whether the base `contains` it; False if the DN is invalid."""
        parsed = parse_dn(dn)
        return parsed is not None and self.contains(normalize(parsed))
