"""The searches of one lookup on one connection: each bounded, and whole or a failure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ldap
from ldap.controls import SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.connection import LdapConnection, SearchResult
from queuegate_server.identity.resolvers.ldap.dn import SearchBase
from queuegate_server.identity.resolvers.ldap.errors import (
    NoSuchEntry,
    ServerFault,
    SetupFault,
    TooManyEntries,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import StepName, timed_step

_ANY_ENTRY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_RANGE_END: Final = re.compile("[0-9]{1,9}")
_RAISE_MAX_GROUPS: Final = "raise max_groups if that is right"


class LimitExceeded(SetupFault):
    """There are more entries than allowed; a part of them would be a wrong answer."""

    def __init__(self, limit: int, advice: str = _RAISE_MAX_GROUPS) -> None:
        found = f"are more than {limit} entries" if limit > 1 else "is more than one entry"
        super().__init__(f"there {found}", advice)


class LdapEntry:
    """An entry of the directory. Names of attributes are compared without regard to case."""

    __slots__ = ("_attributes", "dn")

    def __init__(self, dn: str, attributes: Mapping[str, list[bytes]]) -> None:
        self.dn = dn
        self._attributes = {name.lower(): values for name, values in attributes.items()}

    def values(self, attribute: str) -> list[bytes]:
        """Return the values of an attribute; none if the entry does not have it."""
        return self._attributes.get(attribute.lower(), [])

    def part(self, attribute: str) -> tuple[str, list[bytes]] | None:
        """Return a range that comes as `attribute;range=…`, and its values; None without one."""
        prefix = f"{attribute};range=".lower()
        for name, values in self._attributes.items():
            if name.startswith(prefix):
                return name.removeprefix(prefix), values
        return None


class SearchSession:
    """The searches of one lookup. All methods raise LdapFault."""

    def __init__(self, connection: LdapConnection) -> None:
        self._connection = connection
        self.options = connection.options

    async def search(
        self,
        step_name: StepName,
        base: str,
        filter_text: str,
        attributes: Sequence[str],
        *,
        limit: int,
        scope: int = ldap.SCOPE_SUBTREE,
        advice: str = _RAISE_MAX_GROUPS,
    ) -> list[LdapEntry]:
        """Return the entries below a base that match a filter.

        A result that exceeds the server's size limit is fetched in pages. More entries than
        `limit` are a fault, with this advice.
        """
        with timed_step(step_name, self._connection.server, self._connection.observe) as step:
            try:
                found = await self._search_once(base, scope, filter_text, attributes, limit)
            except TooManyEntries:
                if not self.options.page_size or limit < self.options.page_size:
                    raise LimitExceeded(limit, advice) from None
                found = await self._search_in_pages(base, scope, filter_text, attributes, limit)
            if len(found) > limit:
                raise LimitExceeded(limit, advice)
            entries = "1 entry" if len(found) == 1 else f"{len(found)} entries"
            step.detail = f"{entries} for {filter_text} below {base}"
            return found

    async def read(
        self, step_name: StepName, dn: str, attributes: Sequence[str]
    ) -> LdapEntry | None:
        """Return the entry with a DN; None if it does not exist or is not visible."""
        with timed_step(step_name, self._connection.server, self._connection.observe) as step:
            try:
                found = await self._search_once(dn, ldap.SCOPE_BASE, _ANY_ENTRY, attributes, 1)
            except NoSuchEntry:
                found = []
            step.detail = f"{dn}: {'read' if found else 'not found'}"
            if found and not SearchBase(dn, "base").contains_entry(found[0].dn):
                raise ServerFault(
                    f"the server answered a read of {dn!r:.200} with {found[0].dn!r:.200}"
                )
            return found[0] if found else None

    async def all_values(
        self,
        entry: LdapEntry,
        attribute: str,
        *,
        limit: int | None = None,
        advice: str = _RAISE_MAX_GROUPS,
    ) -> list[bytes]:
        """Return all values of an attribute, also of one that comes in ranges.

        Active Directory leaves a long attribute empty and sends `attribute;range=0-1499`; the
        rest is requested until a range ends in `*`. More values than `limit` (None: `max_groups`)
        are a fault, with this advice.
        """
        if limit is None:
            limit = self.options.max_groups
        values = list(entry.values(attribute))
        part = entry.part(attribute)
        if part is None:
            return values
        while part is not None:
            values += part[1]
            if len(values) > limit:
                raise LimitExceeded(limit, advice)
            last = part[0].partition("-")[2]
            if last == "*":
                return values
            if not _RANGE_END.fullmatch(last) or not part[1]:
                break
            following = f"{attribute};range={int(last) + 1}-*"
            current = await self.read("ranges", entry.dn, [following])
            part = current.part(attribute) if current else None
        raise SetupFault(f"the directory sent only a part of {attribute}")

    async def is_active_directory(self) -> bool:
        """Return whether the server is an Active Directory; asked once for each connection."""
        connection = self._connection
        if connection.is_active_directory is None:
            root = await self.read("root entry", "", ["supportedCapabilities"])
            capabilities = root.values("supportedCapabilities") if root else []
            connection.is_active_directory = _AD_CAPABILITY in capabilities
        return connection.is_active_directory

    async def _search_once(
        self, base: str, scope: int, filter_text: str, attributes: Sequence[str], limit: int
    ) -> list[LdapEntry]:
        return _entries(
            await self._connection.search(
                base, scope, filter_text, attributes, size_limit=limit + 1
            )
        )

    async def _search_in_pages(
        self, base: str, scope: int, filter_text: str, attributes: Sequence[str], limit: int
    ) -> list[LdapEntry]:
        """Return the entries, or more than `limit` of them as soon as there are more."""
        found: list[LdapEntry] = []
        cookie = b""
        while True:
            control = SimplePagedResultsControl(
                criticality=True, size=self.options.page_size, cookie=cookie
            )
            try:
                result = await self._connection.search(
                    base, scope, filter_text, attributes, size_limit=0, controls=[control]
                )
            except TooManyEntries as fault:
                raise SetupFault(
                    f"{fault.detail}, also in pages",
                    "raise the size limit for the bind account (slapd: limits … "
                    "size.prtotal=unlimited)",
                ) from None
            found += _entries(result)
            cookie = _next_cookie(result.controls)
            if not cookie or len(found) > limit:
                return found


def _next_cookie(controls: Sequence[Any]) -> bytes:
    """Return the cookie to request the next page with; empty after the last page."""
    for control in controls:
        if isinstance(control, SimplePagedResultsControl):
            return bytes(control.cookie)
    raise ServerFault("the server sent a page without stating whether it is the last")


def _entries(result: SearchResult) -> list[LdapEntry]:
    """Return the entries; items without a DN are referrals, which are not followed."""
    return [LdapEntry(dn, attributes) for dn, attributes in result.entries if dn is not None]
