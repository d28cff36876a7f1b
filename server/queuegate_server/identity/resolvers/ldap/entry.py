"""Directory entries, and checks of attributes sent by servers."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from queuegate_server.identity.resolvers.ldap.dn import short_name
from queuegate_server.identity.resolvers.ldap.errors import ServerFault, SetupFault, UnusableData

RANGE_OPTION: Final = ";range="
_NO_ATTRIBUTES: Final = "1.1"
_RANGE: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(\*|0|[1-9][0-9]{0,8})")


class LdapEntry:
    """A directory entry. Attribute names are case-insensitive."""

    __slots__ = ("_attributes", "dn")

    def __init__(self, dn: str, attributes: Mapping[str, list[bytes]]) -> None:
        self.dn = dn
        self._attributes = {name.lower(): values for name, values in attributes.items()}

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
                    "that sends OIDs must send names",
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
