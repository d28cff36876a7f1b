"""Combines several requests into one result, which must not be used if one of them fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from yarl import URL

from queuegate_server.identity.rest.answer_limits import MAX_PAGES
from queuegate_server.identity.rest.faults import RequestFault, UnusableAnswer

T = TypeVar("T")

MAX_AT_ONCE: Final = 8
"""The maximum number of concurrent requests in `ask_each`."""


def items_of(body: Any, what: str) -> list[Any]:
    """Return a JSON array of objects. Raises RequestFault."""
    if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
        raise RequestFault(f"{what}: the server sent no list of objects")
    return body


async def ask_each(keys: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> Mapping[str, T]:
    """Return the answers about several names or ids. Raises the first RequestFault."""
    limit = asyncio.Semaphore(MAX_AT_ONCE)
    answers: dict[str, T] = {}

    async def ask_about(key: str) -> None:
        async with limit:
            answers[key] = await ask(key)

    try:
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(ask_about(key))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return answers


async def offset_pages(
    fetch: Callable[[int, int], Awaitable[list[Any]]],
    identity: Callable[[Any], str],
    size: int,
    what: str,
) -> AsyncIterator[list[Any]]:
    """Yield the pages of a list that is read by position. Raises RequestFault.

    Each page begins with the last item of the previous page. If another item is there, items were
    added or removed meanwhile, and one might have been skipped.

    Args:
        fetch: Returns the items at a position, given the position and their maximum number.
        identity: Returns an item's identifier.
        size: The number of items per page, at least 2.
        what: The kind of item on the pages; messages contain it.
    """
    first, last = 0, None
    while True:
        page = await fetch(first, size)
        if len(page) > size:
            raise RequestFault(f"{what}: the server sent more items than requested")
        if last is not None and (not page or identity(page[0]) != last):
            raise UnusableAnswer(f"{what}: the list changed while it was being read")
        yield page if last is None else page[1:]
        if len(page) < size:
            return
        first, last = first + size - 1, identity(page[-1])


async def linked_pages(
    fetch: Callable[[URL], Awaitable[tuple[Any, object]]], first: URL, below: str, what: str
) -> AsyncIterator[list[Any]]:
    """Yield the pages of a list, each of which links to the next. Raises RequestFault.

    Args:
        fetch: Returns a page and the address of the next one, or None, given an address.
        first: The address of the first page.
        below: What the path of every page starts with.
        what: The kind of item on the pages; messages contain it.
    """
    url, seen = first, {str(first)}
    while True:
        page, link = await fetch(url)
        yield items_of(page, what)
        if link is None:
            return
        url = next_page(link, first, below, what)
        if str(url) in seen or len(seen) >= MAX_PAGES:
            raise RequestFault(f"{what}: the pages do not end")
        seen.add(str(url))


def next_page(link: object, first: URL, below: str, what: str) -> URL:
    """Return the address in a link, which must not lead to another server. Raises RequestFault."""
    fault = RequestFault(
        f"{what}: the next page is on another server, to which no token is sent",
        "check whether a proxy changes answers",
    )
    if not isinstance(link, str):
        raise fault
    if not link.isascii() or not link.isprintable() or " " in link:
        raise fault
    try:
        url = URL(link, encoded=True)
        is_same = url.origin() == first.origin() and url.user is None and url.password is None
    except ValueError:
        raise fault from None
    path = url.raw_path
    has_dot_segments = "/." in path or "%2e" in path.lower()
    if not is_same or has_dot_segments or not path.startswith(below):
        raise fault
    return url
