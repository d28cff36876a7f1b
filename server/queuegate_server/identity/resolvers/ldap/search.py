"""One search after the other on one connection: bounded, whole, or a failure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import ldap

from queuegate_server.identity.resolvers.ldap.connection import Connection
from queuegate_server.identity.resolvers.ldap.errors import SetupFault
from queuegate_server.identity.resolvers.ldap.instrumentation import Observer, step
from queuegate_server.identity.resolvers.ldap.options import LdapOptions
from queuegate_server.identity.resolvers.ldap.paging import next_cookie, page_request
from queuegate_server.identity.resolvers.ldap.result_codes import NoSuchEntry, TooManyEntries

SUBTREE: Final[int] = ldap.SCOPE_SUBTREE
ONE_LEVEL: Final[int] = ldap.SCOPE_ONELEVEL
_BASE: Final[int] = ldap.SCOPE_BASE
_ANY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_MOST_RANGES: Final = 10_000
_MORE_GROUPS: Final = "raise max_groups if that is right"


class TooMany(SetupFault):
    """There is more than was asked for; a part would be a wrong answer."""


class Entry:
    """An entry of the directory. Attribute names are compared without regard to case."""

    __slots__ = ("_attributes", "dn")

    def __init__(self, dn: str, attributes: Mapping[str, list[bytes]]) -> None:
        self.dn = dn
        self._attributes = {name.lower(): values for name, values in attributes.items()}

    def values(self, attribute: str) -> list[bytes]:
        """Return the values of an attribute, none if it has none."""
        return self._attributes.get(attribute.lower(), [])

    def with_option(self, attribute: str, option: str) -> Iterator[tuple[str, list[bytes]]]:
        """Yield what follows `attribute;option`, and the values there."""
        start = f"{attribute};{option}".lower()
        for name, values in self._attributes.items():
            if name.startswith(start):
                yield name.removeprefix(start), values


class Session:
    """What one look-up does on one connection. All calls raise LdapFault."""

    def __init__(self, connection: Connection, options: LdapOptions, observe: Observer) -> None:
        self._connection = connection
        self._options = options
        self._observe = observe

    async def search(
        self,
        name: str,
        base: str,
        text: str,
        attributes: Sequence[str],
        *,
        most: int,
        scope: int = SUBTREE,
        advice: str = _MORE_GROUPS,
    ) -> list[Entry]:
        """Return the entries below a base that match a filter, at most `most` of them.

        `name` is that of the step. One more than `most` is a fault: a list that was cut is
        a wrong answer; it comes with `advice`. What the server refuses in one piece is fetched
        in pages.
        """
        with step(name, self._connection.server, self._observe) as taken:
            try:
                found = await self._once(base, scope, text, attributes, most)
            except TooManyEntries:
                if not self._options.page_size or most < self._options.page_size:
                    raise _too_many(most, advice) from None
                found = await self._paged(base, scope, text, attributes, most)
            if len(found) > most:
                raise _too_many(most, advice)
            taken.detail = f"{len(found)} entries for {text} below {base}"
            return found

    async def read(self, name: str, dn: str, attributes: Sequence[str]) -> Entry | None:
        """Return one entry by its name; None if it is not there or may not be seen."""
        with step(name, self._connection.server, self._observe) as taken:
            try:
                found = await self._once(dn, _BASE, _ANY, attributes, 1)
            except NoSuchEntry:
                found = []
            taken.detail = f"{dn}: {'read' if found else 'not there'}"
            return found[0] if found else None

    async def all_values(self, entry: Entry, attribute: str) -> list[bytes]:
        """Return all values of an attribute, also of one that comes in ranges.

        Active Directory leaves the attribute empty and sends `attribute;range=0-1499`;
        the rest is asked for until the range ends in `*`.
        """
        values = list(entry.values(attribute))
        current: Entry | None = entry
        for _ in range(_MOST_RANGES):
            part = next(iter(current.with_option(attribute, "range=")), None) if current else None
            if part is None:
                return values
            values += part[1]
            if len(values) > self._options.max_groups:
                raise _too_many(self._options.max_groups)
            last = part[0].partition("-")[2]
            if last == "*":
                return values
            if not last.isdecimal() or not part[1]:
                break
            following = f"{attribute};range={int(last) + 1}-*"
            current = await self.read("ranges", entry.dn, [following])
            if current is None or not any(current.with_option(attribute, "range=")):
                break
        raise SetupFault(f"the directory sent only a part of {attribute}")

    async def is_active_directory(self) -> bool:
        """Say whether the server says that it is one; asked once a connection."""
        connection = self._connection
        if connection.is_active_directory is None:
            root = await self.read("root entry", "", ["supportedCapabilities"])
            capabilities = root.values("supportedCapabilities") if root else []
            connection.is_active_directory = _AD_CAPABILITY in capabilities
        return connection.is_active_directory

    async def _once(
        self, base: str, scope: int, text: str, attributes: Sequence[str], most: int
    ) -> list[Entry]:
        answer = await self._connection.search(base, scope, text, attributes, most=most + 1)
        return _entries(answer.entries)

    async def _paged(
        self, base: str, scope: int, text: str, attributes: Sequence[str], most: int
    ) -> list[Entry]:
        found: list[Entry] = []
        cookie = b""
        while True:
            control = page_request(self._options.page_size, cookie)
            try:
                answer = await self._connection.search(
                    base, scope, text, attributes, most=0, controls=[control]
                )
            except TooManyEntries as fault:
                raise SetupFault(
                    f"{fault.detail}, also in pages",
                    "raise the size limit for the bind account (slapd: limits … "
                    "size.prtotal=unlimited)",
                ) from None
            found += _entries(answer.entries)
            cookie = next_cookie(answer.controls)
            if not cookie:
                return found
            if len(found) > most:
                raise _too_many(most)


def _entries(found: list[tuple[str | None, Any]]) -> list[Entry]:
    """Return the entries; items without a name are referrals, which are not followed."""
    return [Entry(dn, attributes) for dn, attributes in found if dn is not None]


def _too_many(most: int, advice: str = _MORE_GROUPS) -> TooMany:
    return TooMany(f"there are more than {most} {'entries' if most > 1 else 'entry'}", advice)
