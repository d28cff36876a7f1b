"""Bounded searches for one lookup on one connection. Incomplete results raise a fault."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, cast

import ldap
from ldap.controls import SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.entries import RANGE_OPTION, LdapEntry, SearchBase
from queuegate_server.identity.resolvers.ldap.ldap_connection import LdapConnection, SearchQuery
from queuegate_server.identity.resolvers.ldap.ldap_faults import (
    NoSuchEntry,
    ServerFault,
    TooManyEntries,
    UnusableData,
)
from queuegate_server.identity.resolvers.ldap.pending import Allowance, SearchResult
from queuegate_server.identity.resolvers.ldap.timed_steps import StepName, timed_step
from queuegate_server.runtime.pacing import Turn, in_steps

T = TypeVar("T")

_SCOPES: Final = {"base": ldap.SCOPE_BASE, "one": ldap.SCOPE_ONELEVEL, "sub": ldap.SCOPE_SUBTREE}
_ANY_ENTRY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_MORE_PAGES: Final = 100
"""The number of extra pages or ranges allowed, because a server may send smaller ones than
requested."""
_USUAL_RANGE: Final = 1000
_RAISE_MAX_GROUPS: Final = "raise max_groups if that is expected"


class LimitExceeded(UnusableData):
    """There are more entries or values than allowed. Results are never truncated."""

    def __init__(self, limit: int, advice: str = _RAISE_MAX_GROUPS) -> None:
        excess = f"are more than {limit} entries" if limit > 1 else "is more than one entry"
        super().__init__(f"there {excess}", advice)


@dataclass(eq=False)
class SearchSession:
    """The searches for one lookup. All methods raise LdapFault.

    Must be used as a context manager, which keeps the connection from being closed due to age.
    """

    connection: LdapConnection
    allowance: Allowance | Callable[[], Allowance]
    """One allowance for all responses, or a function that returns a new one for each response."""

    def __post_init__(self) -> None:
        self._turn = Turn(self.connection.long_work)
        self.options = self.connection.options

    def __enter__(self) -> Self:
        self.connection.users += 1
        self.connection.quiet.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._turn.end()
        self.connection.users -= 1
        if not self.connection.users:
            self.connection.quiet.set()

    def in_steps(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield items in steps.

        Lookups on the same connection process long results one at a time, so that the first lookup
        is not delayed by the others.
        """
        return in_steps(items, self._turn)

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
        """Return the entries below `base` that match the filter.

        If the result exceeds the server's size limit, it is fetched in pages. If there are more
        than `limit` entries, a fault with the given advice is raised.
        """
        allowance = self._next_allowance()
        query = SearchQuery(base, filter_text, attributes, scope)
        with timed_step(step_name, self.connection.server, self.connection.observe) as step:
            try:
                result = await self.connection.search(
                    query, size_limit=limit + 1, allowance=allowance
                )
                entries = await self._unpaged_entries(result, attributes)
            except TooManyEntries as fault:
                if fault.received > limit:
                    raise LimitExceeded(limit, advice) from None
                if not self.options.page_size:
                    raise UnusableData(
                        f"{fault.detail}, after {fault.received} entries",
                        "set page_size, or raise the size limit for the bind account",
                    ) from None
                entries = await self._search_in_pages(query, limit)
            if len(entries) > limit:
                raise LimitExceeded(limit, advice)
            count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
            step.detail = f"{count} for {filter_text} below {base}"
            return entries

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
        """Return the matching entries below any of the base's DNs, without duplicates.

        A faulty server may also send entries outside the base; these are not removed.
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
        # Searches may overlap, because one base DN may be below another.
        entries: dict[str, LdapEntry] = {}
        async for entry in self.in_steps(entry for result in results for entry in result):
            entries.setdefault(entry.dn, entry)
        if len(entries) > limit:
            raise LimitExceeded(limit, advice)
        return [*entries.values()]

    async def read(
        self, step_name: StepName, dn: str, attributes: Sequence[str]
    ) -> LdapEntry | None:
        """Return the entry with the given DN; None if it does not exist or is not visible."""
        allowance = self._next_allowance()
        with timed_step(step_name, self.connection.server, self.connection.observe) as step:
            try:
                query = SearchQuery(dn, _ANY_ENTRY, attributes, ldap.SCOPE_BASE)
                result = await self.connection.search(query, size_limit=2, allowance=allowance)
                entries = await self._unpaged_entries(result, attributes)
            except NoSuchEntry:
                entries = []
            step.detail = f"{dn or 'root DSE'}: {'read' if entries else 'not found'}"
            if len(entries) > 1:
                raise ServerFault(f"the server answered a read of {dn!r:.200} with several entries")
            if entries and not SearchBase(dn, "base").contains_entry(entries[0].dn):
                raise ServerFault(
                    f"the server answered a read of {dn!r:.200} with {entries[0].dn!r:.200}"
                )
            return entries[0] if entries else None

    async def all_values(
        self,
        entry: LdapEntry,
        attribute: str,
        *,
        limit: int | None = None,
        advice: str = _RAISE_MAX_GROUPS,
    ) -> list[bytes]:
        """Return all values of an attribute, even if the server sends them in ranges.

        If there are many values, Active Directory leaves the attribute empty and sends
        `attribute;range=0-1499`. More ranges are then requested until one ends in `*`. If there are
        more values than `limit` (by default `max_groups`), a fault with the given advice is raised.
        """
        if limit is None:
            limit = self.options.max_groups
        entry.check_options(attribute)
        values = list(entry.values(attribute))
        part = entry.value_range(attribute)
        if part is None:
            return values
        if values:
            raise ServerFault(f"the server sent {attribute} both in full and as a range")
        for _ in range(limit // _USUAL_RANGE + _MORE_PAGES):
            if part is None:
                raise UnusableData(f"the directory sent only part of {attribute}")
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
            part = current.value_range(attribute) if current else None
        raise ServerFault(f"the server sent {attribute} in too many ranges")

    async def is_active_directory(self) -> bool:
        """Return whether the server is Active Directory. Determined once per connection."""
        connection = self.connection
        if connection.is_active_directory is None:
            root = await self.read("root entry", "", ["supportedCapabilities"])
            capabilities = root.values("supportedCapabilities") if root else []
            connection.is_active_directory = _AD_CAPABILITY in capabilities
        return connection.is_active_directory

    async def _search_in_pages(self, query: SearchQuery, limit: int) -> list[LdapEntry]:
        """Fetch the entries page by page, stopping once there are more than `limit`."""
        entries: list[LdapEntry] = []
        cookie = b""
        size = min(self.options.page_size, limit + 1)
        for _ in range(limit // size + _MORE_PAGES):
            control = SimplePagedResultsControl(criticality=True, size=size, cookie=cookie)
            try:
                result = await self.connection.search(
                    query, size_limit=0, allowance=self._next_allowance(), controls=[control]
                )
            except TooManyEntries as fault:
                raise UnusableData(
                    f"{fault.detail}, even with a page size of {size}",
                    "raise the size limit for the bind account (slapd: limits … "
                    "size.prtotal=unlimited)",
                ) from None
            entries += await self._entries(result, query.attributes)
            next_cookie = _page_cookie(result.controls)
            if next_cookie is None:
                raise ServerFault("the server sent a page without stating whether it is the last")
            if not next_cookie or len(entries) > limit:
                return entries
            cookie = next_cookie
        raise ServerFault(
            f"the server sent {limit // size + _MORE_PAGES} pages for a result of at most {limit} "
            f"entries, and indicated that there are more",
            "check the server; if a proxy in front of it does not support paged results, set "
            "page_size: 0",
        )

    def _next_allowance(self) -> Allowance:
        allowance = self.allowance
        return allowance if isinstance(allowance, Allowance) else allowance()

    async def _unpaged_entries(
        self, result: SearchResult, requested: Sequence[str]
    ) -> list[LdapEntry]:
        """Return a result's entries. Raises ServerFault if the server sent an unrequested page."""
        if _page_cookie(result.controls):
            raise ServerFault(
                "the server sent a page of a result, although paging was not requested"
            )
        return await self._entries(result, requested)

    async def _entries(self, result: SearchResult, requested: Sequence[str]) -> list[LdapEntry]:
        entries: list[LdapEntry] = []
        names = frozenset(name.partition(RANGE_OPTION)[0].lower() for name in requested)
        async for dn, attributes in self.in_steps(result.entries):
            entry = LdapEntry(dn, attributes)
            entry.check_names(names)
            entries.append(entry)
        return entries


def _page_cookie(controls: Sequence[Any]) -> bytes | None:
    """Return the next page's cookie: empty after the last page, None if the result is not paged."""
    pages = (each for each in controls if isinstance(each, SimplePagedResultsControl))
    return next((bytes(page.cookie) for page in pages), None)


async def gather(calls: Sequence[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Run calls, at most `at_once` concurrently; return the results. A failure cancels the rest."""
    if len(calls) == 1:
        return [await calls[0]]
    results: list[T | None] = [None] * len(calls)
    remaining = iter(enumerate(calls))

    async def work() -> None:
        for index, call in remaining:
            results[index] = await call

    workers = [asyncio.ensure_future(work()) for _ in range(min(at_once, len(calls)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        for _, call in remaining:
            call.close()
    return cast("list[T]", results)
