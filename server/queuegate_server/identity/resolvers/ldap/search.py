"""The searches of one lookup on one connection: each bounded, and whole or a failure."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Self, TypeVar, cast

import ldap
from ldap.controls import SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.connection import LdapConnection
from queuegate_server.identity.resolvers.ldap.dn import SearchBase, normalize, parse_dn
from queuegate_server.identity.resolvers.ldap.entry import RANGE_OPTION, LdapEntry
from queuegate_server.identity.resolvers.ldap.errors import (
    NoSuchEntry,
    ServerFault,
    SetupFault,
    TooManyEntries,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import StepName, timed_step
from queuegate_server.identity.resolvers.ldap.long_work import WorkSlices
from queuegate_server.identity.resolvers.ldap.pending import Allowance, SearchResult

T = TypeVar("T")

_SCOPES: Final = {"base": ldap.SCOPE_BASE, "one": ldap.SCOPE_ONELEVEL, "sub": ldap.SCOPE_SUBTREE}
_ANY_ENTRY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_MORE_PAGES: Final = 100
"""Pages and ranges beyond those that are needed if all are full: a server may send shorter ones."""
_USUAL_RANGE: Final = 1000
_RAISE_MAX_GROUPS: Final = "raise max_groups if that is expected"


class LimitExceeded(SetupFault):
    """There are more entries than allowed; a part of them would be a wrong answer."""

    def __init__(self, limit: int, advice: str = _RAISE_MAX_GROUPS) -> None:
        found = f"are more than {limit} entries" if limit > 1 else "is more than one entry"
        super().__init__(f"there {found}", advice)


class SearchSession:
    """The searches of one lookup. All methods raise LdapFault.

    As a context manager, it keeps the connection from being closed for its age.
    """

    def __init__(
        self, connection: LdapConnection, allowance: Allowance | Callable[[], Allowance]
    ) -> None:
        """Search on a connection.

        Args:
            connection: The connection.
            allowance: The allowance of all answers together, or returns one for the next answer.
        """
        self._connection = connection
        self._allowance = allowance
        self.options = connection.options

    def __enter__(self) -> Self:
        """Use the connection."""
        self._connection.users += 1
        self._connection.quiet.clear()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the connection be closed if nobody else uses it."""
        self._connection.users -= 1
        if not self._connection.users:
            self._connection.quiet.set()

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
        allowance = self._next_allowance()
        with timed_step(step_name, self._connection.server, self._connection.observe) as step:
            try:
                result = await self._connection.search(
                    base, scope, filter_text, attributes, size_limit=limit + 1, allowance=allowance
                )
                found = await self._whole(result, attributes)
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

    async def search_below(
        self,
        step_name: StepName,
        base: SearchBase,
        filter_text: str,
        attributes: Sequence[str],
        *,
        limit: int,
        advice: str,
    ) -> list[LdapEntry]:
        """Return the entries below all DNs of a base that match a filter, each once; also those
        that the server sent although they are not below it.
        """
        results = await gather(
            [
                self.search(
                    step_name,
                    dn,
                    filter_text,
                    attributes,
                    limit=limit,
                    scope=_SCOPES[base.scope],
                    advice=advice,
                )
                for dn in base.dns
            ],
            self.options.max_in_flight,
        )
        if len(results) == 1:
            return results[0]
        # One of the DNs may be below another.
        entries: dict[object, LdapEntry] = {}
        async with self.slices() as slices:
            for entry in (entry for result in results for entry in result):
                parsed = parse_dn(entry.dn)
                entries.setdefault(normalize(parsed) if parsed else entry.dn, entry)
                await slices.pause_when_due()
        if len(entries) > limit:
            raise LimitExceeded(limit, advice)
        return [*entries.values()]

    async def read(
        self, step_name: StepName, dn: str, attributes: Sequence[str]
    ) -> LdapEntry | None:
        """Return the entry with a DN; None if it does not exist or is not visible."""
        allowance = self._next_allowance()
        with timed_step(step_name, self._connection.server, self._connection.observe) as step:
            try:
                result = await self._connection.search(
                    dn, ldap.SCOPE_BASE, _ANY_ENTRY, attributes, size_limit=2, allowance=allowance
                )
                found = await self._whole(result, attributes)
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
                    allowance=self._next_allowance(),
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

    def _next_allowance(self) -> Allowance:
        allowance = self._allowance
        return allowance if isinstance(allowance, Allowance) else allowance()

    async def _whole(self, result: SearchResult, requested: Sequence[str]) -> list[LdapEntry]:
        """Return the entries of a result that was not asked for in pages."""
        if _page_cookie(result.controls):
            raise ServerFault(
                "the server sent a page of a result, although paging was not requested"
            )
        return await self._entries(result, requested)

    async def _entries(self, result: SearchResult, requested: Sequence[str]) -> list[LdapEntry]:
        entries: list[LdapEntry] = []
        names = frozenset(name.partition(RANGE_OPTION)[0].lower() for name in requested)
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
