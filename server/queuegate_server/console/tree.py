"""A partition's queues as a tree. Only expanded levels are visited.

Children are located by binary search in the sorted paths, because a partition may have 100,000
queues, and a queue may have thousands of children.
"""

import asyncio
import bisect
import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from queuegate.policy.decision import Access
from queuegate.policy.names import MAX_COMPARED_QUEUES, SEPARATOR, similar_queue
from queuegate.policy.tree import Partition
from queuegate_server.runtime.pacing import Pace

LEVEL: Final = 100
"""The maximum number of children per page."""
MANY_LEVELS: Final = 10
"""The number of open levels beyond which each level shows only this many children."""
MAX_MATCHES: Final = 100
"""The maximum number of queues in a search result."""
_searching: Final = asyncio.Semaphore(1)
"""Allows one search at a time, because each search in progress delays RPCs by one step."""
_AFTER: Final = chr(ord(SEPARATOR) + 1)


class Level(NamedTuple):
    """A page of a queue's children."""

    paths: Sequence[str]
    has_earlier: bool
    following: str
    """The first path on the next page; empty on the last page."""


class Row(NamedTuple):
    """A row in the tree: a queue, or a gap for omitted queues."""

    depth: int
    path: str
    has_children: bool
    is_open: bool
    earlier: str = ""
    """In a gap, the queue whose first children are omitted."""
    later: str = ""
    """In a gap, the queue whose last children are omitted."""
    start: str = ""
    """In a gap with `later`, the path of the first omitted child."""


def children(partition: Partition, path: str, start: str = "") -> Iterator[str]:
    """Yield a queue's children in order, starting at the path `start`."""
    paths = partition.paths
    prefix = path + SEPARATOR
    index = bisect.bisect_left(paths, max(start, prefix))
    while index < len(paths) and (candidate := paths[index]).startswith(prefix):
        below = candidate.find(SEPARATOR, len(prefix))
        if below < 0:
            yield candidate
            index += 1
        else:
            # Skip the descendants of a child that was already yielded or precedes `start`.
            index = bisect.bisect_left(paths, candidate[:below] + _AFTER, index)


def has_children(partition: Partition, path: str) -> bool:
    """Return whether a queue has children."""
    return next(children(partition, path), None) is not None


def level(partition: Partition, path: str, start: str = "", size: int = LEVEL) -> Level:
    """Return one page of a queue's children, starting at the path `start`."""
    paths = [*itertools.islice(children(partition, path, start), size + 1)]
    following = paths.pop() if len(paths) > size else ""
    first = next(children(partition, path), "")
    return Level(paths, bool(paths) and paths[0] != first, following)


def rows(partition: Partition, selected: str, start: str = "") -> Iterator[Row]:
    """Yield the tree's rows with the selected queue and its ancestors expanded.

    Args:
        partition: The partition.
        selected: The path of the queue to expand. The queue must exist.
        start: The first child on the page; empty for the first page.
    """
    open_paths = [queue.path for queue in partition.upwards(selected)]
    open_paths.reverse()
    size = LEVEL if len(open_paths) <= MANY_LEVELS else MANY_LEVELS
    behind: list[list[Row]] = []
    for depth, path in enumerate(open_paths):
        yield Row(depth, path, has_children(partition, path), is_open=True)
        is_last = depth + 1 == len(open_paths)
        inner = "" if is_last else open_paths[depth + 1]
        page = level(partition, path, start if is_last else "", size)
        if inner and inner not in page.paths:
            page = level(partition, path, inner, size)
        before, after = _around(partition, path, depth + 1, page, inner)
        yield from before
        behind.append(after)
    for after in reversed(behind):
        yield from after


def _around(
    partition: Partition, path: str, depth: int, page: Level, inner: str
) -> tuple[list[Row], list[Row]]:
    """Return the rows that precede and follow the expanded child on its level."""
    lines = [
        Row(depth, child, has_children(partition, child), is_open=False)
        for child in page.paths
        if child != inner
    ]
    cut = page.paths.index(inner) if inner else len(lines)
    before, after = lines[:cut], lines[cut:]
    if page.has_earlier:
        before.insert(0, Row(depth, "", has_children=False, is_open=False, earlier=path))
    if page.following:
        more = Row(depth, "", has_children=False, is_open=False, later=path, start=page.following)
        (after if inner else before).append(more)
    return before, after


async def similar(partition: Partition, path: str, above: str) -> str:
    """Return the existing queue that is most similar to a missing one; "" if none is similar.

    Args:
        partition: The partition.
        path: The path of the missing queue, as in the request.
        above: Its nearest existing ancestor. Only queues below it are compared.
    """
    start = bisect.bisect_left(partition.paths, above + SEPARATOR)
    end = bisect.bisect_left(partition.paths, above + _AFTER, start)
    below = partition.paths[start : min(end, start + MAX_COMPARED_QUEUES + 1)]
    async with _searching:
        # In a thread, because comparing names may take a tenth of a second.
        return await asyncio.to_thread(similar_queue, path, above, below)


async def search(partition: Partition, text: str) -> tuple[list[str], bool]:
    """Return the first paths that contain `text`, ignoring case, and whether there are more."""
    wanted = text.lower()
    matches: list[str] = []
    async with _searching:
        pace = Pace()
        for path in partition.paths:
            await pace.pause_if_due()
            if wanted in path.lower():
                if len(matches) == MAX_MATCHES:
                    return matches, True
                matches.append(path)
    return matches, False


def openness(partition: Partition, path: str, access: Access) -> str:
    """Return `open` if everyone may use a queue, `closed` if nobody may, else an empty string."""
    chain = partition.chain(path, access)
    if chain.otherwise is not None and chain.otherwise.allowed:
        return "open"
    return "" if any(chain.levels()) else "closed"
