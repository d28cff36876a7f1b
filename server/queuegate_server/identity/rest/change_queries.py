"""Follows a provider by asking it every few seconds what has changed."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from queuegate_server.identity.repeated_reports import RepeatedReports
from queuegate_server.identity.resolver import CannotFollow, ChangeSink
from queuegate_server.identity.rest.answer_limits import MAX_AFFECTED
from queuegate_server.identity.rest.faults import NotFound, RequestFault
from queuegate_server.identity.rest.paging import ask_each
from queuegate_server.identity.rest.provider_names import FormerNames


@dataclass(frozen=True, slots=True)
class AffectedIds:
    """Users whose groups may have changed."""

    ids: Collection[str] = ()
    """The ids of users."""
    is_all: bool = False


class ChangeQuery(Protocol):
    """Queries a provider for changes. The methods raise RequestFault."""

    @property
    def position(self) -> bytes:
        """Where another query can continue."""

    async def begin(self) -> None:
        """Start from the present, without a position."""

    def resume(self, position: bytes) -> None:
        """Continue from a position. If it is unknown, `changed` reports that all users are
        affected.
        """

    async def changed(self) -> AffectedIds:
        """Return the users whose groups may have changed since the last call."""


async def follow(
    query: ChangeQuery,
    sink: ChangeSink,
    names_of: Callable[[str], Awaitable[Collection[str]]],
    former_names: FormerNames,
    *,
    interval: float,
    repeat_after: float,
    is_vague: bool,
) -> None:
    """Follow a provider until cancelled. Raises CannotFollow.

    Args:
        query: Queries the provider for changes.
        sink: Receives the changes.
        names_of: Returns the names by which callers know a user, if any, given the user's id.
            Raises NotFound or another RequestFault.
        former_names: The names by which users were looked up.
        interval: The pause between two queries, in seconds.
        repeat_after: After how many seconds a change is reported again, because the lookup after
            the first report may have got old groups.
        is_vague: Whether callers may spell names in any case, so that every change affects all
            users.
    """

    async def changed() -> Collection[str] | None:
        affected = await query.changed()
        if affected.is_all or len(affected.ids) > MAX_AFFECTED or (is_vague and affected.ids):
            return None
        try:
            names = await ask_each(affected.ids, names_of)
        except NotFound:
            return None  # the name of a deleted user is unknown
        return set().union(*names.values(), *map(former_names.of, affected.ids))

    reports = RepeatedReports(sink, repeat_after)
    try:
        if sink.position is None:
            await query.begin()  # all users are invalidated now
            sink.reached(query.position)
        else:
            query.resume(sink.position)
            reports.report(await changed(), query.position)
        while True:
            await asyncio.sleep(interval)
            reports.repeat()
            reports.report(await changed(), query.position)
    except RequestFault as fault:
        raise CannotFollow(fault.text) from None
