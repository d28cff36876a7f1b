"""The searches of one lookup on one connection: each bounded, and whole or a failure."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import ldap
from ldap.controls import SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.allowance import Allowance
from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.dn import SearchBase, short_name
from queuegate_server.identity.resolvers.ldap.errors import (
    NoSuchEntry,
    ServerFault,
    SetupFault,
    TooManyEntries,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import StepName, timed_step
from queuegate_server.identity.resolvers.ldap.pending import SearchResult
from queuegate_server.runtime.event_loop import WorkSlices

T = TypeVar("T")

_NO_ATTRIBUTES: Final = "1.1"
_ANY_ENTRY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_RANGE_OPTION: Final = ";range="
_RANGE: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(\*|0|[1-9][0-9]{0,8})")
_MORE_PAGES: Final = 100
"""Pages and ranges beyond those that are needed if all are full: a server may send shorter ones."""
_USUAL_RANGE: Final = 1000
_RAISE_MAX_GROUPS: Final = "raise max_groups if that is expected"


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

    def part(self, attribute: str) -> "ValueRange | None":
        """Return the range of values that comes as `attribute;range=…`; None without one.

        Raises ServerFault if there are several, or if its bounds do not fit its values.
        """
        prefix = f"{attribute}{_RANGE_OPTION}".lower()
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
        """Raise SetupFault if an attribute came under another name than was requested.

        To take the attribute for missing would be a wrong answer.

        Args:
            requested: The names of the attributes, in lower case and without ranges.
        """
        has_oid = any("." in name for name in requested - {_NO_ATTRIBUTES})
        for name in self._attributes:
            if name.partition(_RANGE_OPTION)[0] in requested:
                continue
            attribute, _, options = name.partition(";")
            if attribute in requested:
                if options and not self._has_values(attribute):
                    raise _option_fault(name)
                continue
            is_alias = short_name(attribute) in map(short_name, requested)
            # Any attribute may have the OID.
            if has_oid or is_alias or "." in attribute:
                raise SetupFault(
                    f"the directory sent the attribute {name:.200}, but was asked for "
                    f"{', '.join(sorted(requested)):.200}",
                    "in the settings, use the names that the directory sends; a server or proxy "
                    "that sends OIDs must send names",
                )

    def check_options(self, attribute: str) -> None:
        """Raise SetupFault if values of an attribute came with an option other than a range.

        They are values of the attribute as well (RFC 4512, 2.5.2.1).
        """
        attribute = attribute.lower()
        for name in self._attributes:
            if name.startswith(f"{attribute};") and not name.startswith(
                f"{attribute}{_RANGE_OPTION}"
            ):
                raise _option_fault(name)

    def _has_values(self, attribute: str) -> bool:
        return bool(self._attributes.get(attribute)) or any(
            name.startswith(f"{attribute}{_RANGE_OPTION}") for name in self._attributes
        )


def _option_fault(name: str) -> SetupFault:
    attribute, _, options = name.partition(";")
    return SetupFault(
        f"the directory sent values of {attribute} with the option {options:.200}",
        f"let the entry have values of {attribute} without options; a part of them is not enough",
    )


class ValueRange(NamedTuple):
    """A part of the values of an attribute (MS-ADTS 3.1.1.3.1.3.3)."""

    start: int
    """How many values are before it."""
    values: list[bytes]
    is_last: bool
    """Whether no values are after it."""


class SearchSession:
    """The searches of one lookup. All methods raise LdapFault."""

    def __init__(self, connection: LdapConnection, allowance: Callable[[], Allowance]) -> None:
        """Search on a connection; `allowance` returns what the next answer may bring."""
        self._connection = connection
        self._allowance = allowance
        self.options = connection.options

    def slices(self) -> WorkSlices:
        """Return the slices for work on the results of searches."""
        return WorkSlices(self._connection.long_work)

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
            except TooManyEntries as fault:
                if fault.received > limit:
                    raise LimitExceeded(limit, advice) from None
                if not self.options.page_size:
                    raise SetupFault(
                        f"{fault.detail}, after {fault.received} entries",
                        "set page_size, or raise the size limit for the bind account",
                    ) from None
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
            if len(found) > 1:
                raise ServerFault(f"the server answered a read of {dn!r:.200} with several entries")
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
        entry.check_options(attribute)
        values = list(entry.values(attribute))
        part = entry.part(attribute)
        if part is None:
            return values
        if values:
            raise ServerFault(f"the server sent {attribute} both as a whole and as a range")
        for _ in range(limit // _USUAL_RANGE + _MORE_PAGES):
            if part is None:
                raise SetupFault(f"the directory sent only a part of {attribute}")
            if part.start != len(values):
                raise ServerFault(
                    f"the server sent {attribute} from value {part.start}, but was asked for "
                    f"values from {len(values)}"
                )
            values += part.values
            if len(values) > limit:
                raise LimitExceeded(limit, advice)
            if part.is_last:
                return values
            following = f"{attribute};range={len(values)}-*"
            current = await self.read("ranges", entry.dn, [following])
            part = current.part(attribute) if current else None
        raise ServerFault(f"the server sent {attribute} in too many ranges")

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
        result = await self._connection.search(
            base,
            scope,
            filter_text,
            attributes,
            size_limit=limit + 1,
            allowance=self._allowance(),
        )
        if _page_cookie(result.controls):
            raise ServerFault(
                "the server sent a page of a result, although paging was not requested"
            )
        return await self._entries(result, attributes)

    async def _search_in_pages(
        self, base: str, scope: int, filter_text: str, attributes: Sequence[str], limit: int
    ) -> list[LdapEntry]:
        """Return the entries, or more than `limit` of them as soon as there are more."""
        found: list[LdapEntry] = []
        cookie = b""
        size = min(self.options.page_size, limit + 1)
        for _ in range(limit // size + _MORE_PAGES):
            control = SimplePagedResultsControl(criticality=True, size=size, cookie=cookie)
            try:
                result = await self._connection.search(
                    base,
                    scope,
                    filter_text,
                    attributes,
                    size_limit=0,
                    allowance=self._allowance(),
                    controls=[control],
                )
            except TooManyEntries as fault:
                raise SetupFault(
                    f"{fault.detail}, even in pages of {size}",
                    "raise the size limit for the bind account (slapd: limits … "
                    "size.prtotal=unlimited)",
                ) from None
            found += await self._entries(result, attributes)
            next_cookie = _page_cookie(result.controls)
            if next_cookie is None:
                raise ServerFault("the server sent a page without stating whether it is the last")
            if not next_cookie or len(found) > limit:
                return found
            cookie = next_cookie
        raise ServerFault(
            f"the server sent {limit // size + _MORE_PAGES} pages for a result of at most {limit} "
            f"entries, and says that there are more",
            "check the server; if a proxy in front of it does not support paged results, set "
            "page_size: 0",
        )

    async def _entries(self, result: SearchResult, requested: Sequence[str]) -> list[LdapEntry]:
        entries: list[LdapEntry] = []
        names = frozenset(name.partition(_RANGE_OPTION)[0].lower() for name in requested)
        async with self.slices() as slices:
            for dn, attributes in result.entries:
                entry = LdapEntry(dn, attributes)
                entry.check_names(names)
                entries.append(entry)
                await slices.pause_when_due()
        return entries


def _page_cookie(controls: Sequence[Any]) -> bytes | None:
    """Return the cookie to request the next page with: empty after the last page, None if the
    result is no page.
    """
    for control in controls:
        if isinstance(control, SimplePagedResultsControl):
            return bytes(control.cookie)
    return None


async def gather(calls: Sequence[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Return the results of all calls in order; the first failure ends the other calls.

    Args:
        calls: The calls, each of which makes one request after the other.
        at_once: How many may run at the same time.
    """
    if len(calls) == 1:
        return [await calls[0]]
    results: list[T | None] = [None] * len(calls)
    remaining = iter(enumerate(calls))

    async def work() -> None:
        for place, call in remaining:
            results[place] = await call

    workers = [asyncio.ensure_future(work()) for _ in range(min(at_once, len(calls)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        for _, call in remaining:
            call.close()
    return cast("list[T]", results)
