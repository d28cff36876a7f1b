"""Reads lists that come in pages. If a page is missing, the list must not be used."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from queuegate_server.identity.rest.faults import RequestFault


def items_of(body: Any, what: str) -> list[Any]:
    """Return a JSON array of objects. Raises RequestFault."""
    if not isinstance(body, list) or not all(isinstance(each, dict) for each in body):
        raise RequestFault(f"{what}: the server sent no list of objects")
    return body


async def offset_pages(
    fetch: Callable[[int, int], Awaitable[list[Any]]],
    identity: Callable[[Any], str],
    size: int,
    what: str,
) -> AsyncIterator[list[Any]]:
    """Yield the pages of a list that is read by position. Raises RequestFault.

    Each page begins with the last item of the one before. If another item is there, items were
    added or removed meanwhile, and one might have been skipped.

    Args:
        fetch: Returns the items at a position, given the position and their maximum number.
        identity: Returns what identifies an item.
        size: The number of items per page, at least 2.
        what: What is read, for messages.
    """
    first, last = 0, None
    while True:
        page = await fetch(first, size)
        if len(page) > size:
            raise RequestFault(f"{what}: the server sent more items than requested")
        if last is not None and (not page or identity(page[0]) != last):
            raise RequestFault(f"{what}: the list changed while it was read")
        yield page if last is None else page[1:]
        if len(page) < size:
            return
        first, last = first + size - 1, identity(page[-1])
