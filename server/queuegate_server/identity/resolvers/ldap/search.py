"""The searches of one lookup on one connection: each is bounded, and complete or a failure."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Self, TypeVar, cast

import ldap
from ldap.controls import SimplePagedResultsControl

from queuegate_server.identity.resolvers.ldap.connection import LdapConnection, Query
from queuegate_server.identity.resolvers.ldap.dn import SearchBase, normalize, parse_dn
from queuegate_server.identity.resolvers.ldap.entry import RANGE_OPTION, LdapEntry
from queuegate_server.identity.resolvers.ldap.errors import (
    NoSuchEntry,
    ServerFault,
    SetupFault,
    TooManyEntries,
)
from queuegate_server.identity.resolvers.ldap.instrumentation import StepName, timed_step
from queuegate_server.identity.resolvers.ldap.long_work import FREE_SECONDS, STEP_SECONDS, TURNS
from queuegate_server.identity.resolvers.ldap.pending import Allowance, SearchResult

T = TypeVar("T")

_SCOPES: Final = {"base": ldap.SCOPE_BASE, "one": ldap.SCOPE_ONELEVEL, "sub": ldap.SCOPE_SUBTREE}
_ANY_ENTRY: Final = "(objectClass=*)"
_AD_CAPABILITY: Final = b"1.2.840.113556.1.4.800"
_MORE_PAGES: Final = 100
"""Extra pages and ranges beyond those needed if all are full: a server may send shorter ones."""
_USUAL_RANGE: Final = 1000
_RAISE_MAX_GROUPS: Final = "raise max_groups if that is expected"


class LimitExceeded(SetupFault):
    """There are more entries than allowed; a part of them would be a wrong answer."""

    def __init__(self, limit: int, advice: str = _RAISE_MAX_GROUPS) -> None:
        found = f"are more than {limit} entries" if limit > 1 else "is more than one entry"
        super().__init__(f"there {found}", advice)


class SearchSession:
    """The searches of one lookup. All methods raise LdapFault.

    As a context manager, it keeps the connection from being closed because of its age.
    """

    def __init__(
        self, connection: LdapConnection, allowance: Allowance | Callable[[], Allowance]
    ) -> None:
        """Search on a connection.

        Args:
            connection: The connection.
            allowance: The allowance for all answers together, or a function that returns that for
                the next.
        """
        self._connection = connection
        self._allowance = allowance
        self._works = False
        """Whether this lookup holds the lock for long work."""
        self.options = connection.options

    def __enter__(self) -> Self:
        """Use the connection."""
        self._connection.users += 1
        self._connection.quiet.clear()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the connection be closed if nobody else uses it."""
        self._end_work()
        self._connection.users -= 1
        if not self._connection.users:
            self._connection.quiet.set()

    async def in_steps(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield items to work on, and let other work run whenever a step has taken long enough.

        Lookups on one connection work one after the other, so that the first has its result soon.
        """
        begin = time.monotonic()
        end = begin + FREE_SECONDS
        for item in items:
            if (now := time.monotonic()) > end:
                wait = TURNS.wait(now - begin)
                if not self._works:
                    await self._connection.long_work.acquire()
                    self._works = True
                    wait = TURNS.wait()
                await asyncio.sleep(wait)
                begin = time.monotonic()
                end = begin + STEP_SECONDS
            yield item
        self._end_work()

    def _end_work(self) -> None:
        if self._works:
            self._works = False
            self._connection.long_work.release()

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
        query = Query(base, filter_text, attributes, scope)
        with timed_step(step_name, self._connection.server, self._connection.observe) as step:
            try:
                result = await self._connection.search(
                    query, size_limit=limit + 1, allowance=allowance
                )
                entries = await self._whole(result, attributes)
            except TooManyEntries as fault:
                if fault.received > limit:
                    raise LimitExceeded(limit, advice) from None
                if not self.options.page_size:
                    raise SetupFault(
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
        """Return the entries below all DNs of a base that match a filter, each once, including
        any that the server sent although they are not below it.
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
        async for entry in self.in_steps(entry for result in results for entry in result):
            parsed = parse_dn(entry.dn)
            entries.setdefault(normalize(parsed) if parsed else entry.dn, entry)
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
                query = Query(dn, _ANY_ENTRY, attributes, ldap.SCOPE_BASE)
                result = await self._connection.search(query, size_limit=2, allowance=allowance)
                entries = await self._whole(result, attributes)
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
        """Return all values of an attribute, even if it comes in ranges.

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

    async def _search_in_pages(self, query: Query, limit: int) -> list[LdapEntry]:
        """Return the entries, or more than `limit` of them as soon as there are more."""
        entries: list[LdapEntry] = []
        cookie = b""
        size = min(self.options.page_size, limit + 1)
        for _ in range(limit // size + _MORE_PAGES):
            control = SimplePagedResultsControl(criticality=True, size=size, cookie=cookie)
            try:
                result = await self._connection.search(
                    query, size_limit=0, allowance=self._next_allowance(), controls=[control]
                )
            except TooManyEntries as fault:
                raise SetupFault(
                    f"{fault.detail}, even in pages of {size}",
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
            f"entries, and says that there are more",
            "check the server; if a proxy in front of it does not support paged results, set "
            "page_size: 0",
        )

    def _next_allowance(self) -> Allowance:
        allowance = self._allowance
        return allowance if isinstance(allowance, Allowance) else allowance()

    async def _whole(self, result: SearchResult, requested: Sequence[str]) -> list[LdapEntry]:
        """Return the entries of a result that was not requested in pages."""
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
    """Return the cookie to request the next page with: empty after the last page, None if the
    result is not a page.
    """
    pages = (each for each in controls if isinstance(each, SimplePagedResultsControl))
    return next((bytes(page.cookie) for page in pages), None)


async def gather(calls: Sequence[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Return the results of all calls in order; the first failure ends the other calls.

    Args:
        calls: The calls, each of which makes its requests one after another.
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
