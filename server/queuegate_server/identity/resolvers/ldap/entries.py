"""Directory entries, their distinguished names (DNs), and the configured kinds of groups.

The driver parses DNs (RFC 4514), and `normalize` makes all spellings of a DN equal.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final, Literal, NamedTuple

import ldap
import ldap.dn

from queuegate_server.identity.resolvers.ldap.filters import all_of, equals
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    ServerFault,
    SetupFault,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.ldap_options import GroupOptions

MAX_DN_BYTES: Final = 8192
"""The maximum length of a DN, as in OpenLDAP. The driver's parsing time is quadratic in the number
of components, so a DN with 300,000 of them would block the process for seconds."""

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
_MAX_CACHED_DNS: Final = 65_536
_MAX_CACHED_CHARS: Final = 256
"""The maximum length of cached DNs; without it, the cache could grow to gigabytes."""
RANGE_OPTION: Final = ";range="
_NO_ATTRIBUTES: Final = "1.1"
_RANGE: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(\*|0|[1-9][0-9]{0,8})")


class LdapEntry:
    """A directory entry. Attribute names are case-insensitive."""

    __slots__ = ("_attributes", "dn")

    def __init__(self, dn: str, attributes: Mapping[str, list[bytes]]) -> None:
        self.dn = dn
        self._attributes = {name.lower(): values for name, values in attributes.items()}

    @property
    def key(self) -> str:
        """The `dn_key` of the entry's DN. Raises UnusableData if the DN is too long."""
        return dn_key(normalize(parse_dn(self.dn) or []))

    def values(self, attribute: str) -> list[bytes]:
        """Return an attribute's values; an empty list if the entry lacks the attribute."""
        return self._attributes.get(attribute.lower(), [])

    def value_range(self, attribute: str) -> "ValueRange | None":
        """Return the values sent as `attribute;range=…`; None if no range was sent.

        Raises ServerFault if there are several ranges, or the bounds do not match the values.
        """
        prefix = f"{attribute}{RANGE_OPTION}".lower()
        parts = [
            (name.removeprefix(prefix), values)
            for name, values in self._attributes.items()
            if name.startswith(prefix)
        ]
        if not parts:
            return None
        match = _RANGE.fullmatch(parts[0][0])
        if len(parts) > 1 or match is None:
            raise ServerFault(f"the server sent {attribute} in invalid ranges")
        text, values = parts[0]
        start = int(match[1])
        is_last = match[2] == "*"
        if not is_last and not 0 < len(values) == int(match[2]) - start + 1:
            raise ServerFault(
                f"the server sent {len(values)} values of {attribute} as the range {text}"
            )
        return ValueRange(start, values, is_last)

    def check_names(self, requested: frozenset[str]) -> None:
        """Raise SetupFault if an attribute was sent under a name not in `requested`.

        If the server used an alias of a requested attribute, that attribute's values would seem to
        be missing. `requested` contains lowercase names without ranges.
        """
        has_oid = any("." in name for name in requested - {_NO_ATTRIBUTES})
        valued: frozenset[str] = frozenset()
        for name in self._attributes:
            if name.partition(RANGE_OPTION)[0] in requested:
                continue
            attribute, _, options = name.partition(";")
            if attribute in requested:
                if options:
                    valued = valued or self._with_values()
                    if attribute not in valued:
                        raise _option_fault(name, self.dn)
                continue
            is_alias = short_name(attribute) in map(short_name, requested)
            # An OID could identify any of the requested attributes.
            if has_oid or is_alias or "." in attribute:
                raise SetupFault(
                    f"the directory sent the attribute {name:.200}, but was asked for "
                    f"{', '.join(sorted(requested)):.200}",
                    "in the settings, use the names sent by the directory; a server or proxy "
                    "that sends OIDs must be configured to send names",
                )

    def check_options(self, attribute: str) -> None:
        """Raise UnusableData if the attribute was sent with an option other than a range.

        Values with options belong to the attribute (RFC 4512, 2.5.2.1), so ignoring them would give
        a wrong result.
        """
        attribute = attribute.lower()
        for name in self._attributes:
            if name.startswith(f"{attribute};") and not name.startswith(
                f"{attribute}{RANGE_OPTION}"
            ):
                raise _option_fault(name, self.dn)

    def _with_values(self) -> frozenset[str]:
        """Return the names of attributes with values, without ranges."""
        return frozenset(
            name.partition(RANGE_OPTION)[0]
            for name, values in self._attributes.items()
            if values or RANGE_OPTION in name
        )


def _option_fault(name: str, dn: str) -> UnusableData:
    attribute, _, options = name.partition(";")
    return UnusableData(
        f"the directory sent values of {attribute} with the option {options:.200}",
        f"store all values of {attribute} in the entry {dn!r:.200} without options",
    )


class ValueRange(NamedTuple):
    """A range of an attribute's values (MS-ADTS 3.1.1.3.1.3.3)."""

    start: int
    """The index of the first value."""
    values: list[bytes]
    is_last: bool
    """Whether this is the last range."""


def decode_value(value: bytes) -> str | None:
    """Decode a value; return None if it is not valid UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


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


def rdn_filter(parsed: ParsedDn) -> str:
    """Return a filter for entries with a DN's first component; "" if the component is binary, so
    that no filter can contain it, or if there is none.
    """
    if not parsed or any(kind & ldap.AVA_BINARY for _, _, kind in parsed[0]):
        return ""
    parts = [equals(attribute, value) for attribute, value, _ in parsed[0]]
    return parts[0] if len(parts) == 1 else all_of(*parts)


def normalize(parsed: ParsedDn) -> NormalizedDn:
    """Normalize case, spaces and character width, which DN comparison ignores (RFC 4518)."""
    return tuple(
        tuple(sorted((short_name(attribute), _fold(value)) for attribute, value, _ in rdn))
        for rdn in parsed
    )


def dn_key(dn: NormalizedDn) -> str:
    """Return a normalized DN as one string, which takes less memory than its parts."""
    return repr(dn)


def short_name(attribute: str) -> str:
    """Return an attribute's short name in lowercase, given its OID, alias or name."""
    name = attribute.lower()
    return _SHORT_NAMES.get(name, name)


def _fold(value: str) -> str:
    text = " ".join(unicodedata.normalize("NFKC", value).split())
    if text.isascii():
        return text.lower()
    # Convert each character separately, as directories do: casefold() makes "ss" of "ß", and the
    # result of lower() for a sigma depends on the letters around it.
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


class GroupDn(NamedTuple):
    """The parsed form of a group's DN."""

    key: str
    """The `dn_key` of the DN, which is the same for all of its spellings."""
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


def _parse(
    options: GroupOptions, base: SearchBase, apply_case: Callable[[str], str], dn: str
) -> GroupDn | None:
    parsed = parse_dn(dn)
    if not parsed:
        return None
    normalized = normalize(parsed)
    name = _name_in(options, parsed)
    return GroupDn(
        dn_key(normalized), base.contains(normalized), None if name is None else apply_case(name)
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
