"""Follows the changes of a realm by its admin events.

Keycloak records what administrators change, if the realm is set up to do so. The newest events are
requested every few seconds. An event gets its time before it becomes visible, so events of the last
minute are always read again. The newest known event must be among them: otherwise, events have been
deleted, and everybody may be affected.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queuegate_server.identity.repeated_reports import RepeatedReports
from queuegate_server.identity.resolver import CannotFollow, ChangeSink
from queuegate_server.identity.rest.faults import RequestFault

OVERLAP_MS: Final = 60_000
"""How long an event may take to become visible, in milliseconds, with any difference of clocks."""
PAGE: Final = 100
MAX_PAGES: Final = 10
"""If there are more pages of new events, everybody is affected."""
MAX_USERS: Final = 100
"""If an answer concerns more users, everybody is affected."""
TYPES: Final = (
    "USER",
    "GROUP",
    "GROUP_MEMBERSHIP",
    "REALM",
    "COMPONENT",
    "USER_FEDERATION_PROVIDER",
    "USER_FEDERATION_MAPPER",
)
"""The types of resources whose changes can change the groups of users."""


class AdminEvent(NamedTuple):
    """A recorded change. Two events that are equal have the same effect."""

    time: int
    """In milliseconds."""
    operation: str
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Affected:
    """Whose groups may have changed."""

    ids: Collection[str] = ()
    """The ids of users."""
    is_all: bool = False


def affected_by(events: Iterable[AdminEvent]) -> Affected:
    """Return whose groups may have changed.

    A deleted user's name is unknown. A new group has no members yet.
    """
    ids: dict[str, None] = {}
    for event in events:
        if event.kind == "GROUP" and event.operation == "CREATE":
            continue
        first, _, rest = event.path.partition("/")
        user = rest.partition("/")[0]
        concerns_user = event.kind in {"USER", "GROUP_MEMBERSHIP"} and first == "users" and user
        if not concerns_user or (event.kind == "USER" and event.operation == "DELETE"):
            return Affected(is_all=True)
        ids[user] = None
    return Affected(is_all=True) if len(ids) > MAX_USERS else Affected(tuple(ids))


def parse_event(item: object) -> AdminEvent:
    """Return an event in an answer. Raises RequestFault."""
    given = item if isinstance(item, dict) else {}
    time = given.get("time")
    texts = [given.get(key) for key in ("operationType", "resourceType", "resourcePath")]
    if isinstance(time, bool) or not isinstance(time, int):
        raise RequestFault("events: an event has no usable time")
    operation, kind, path = (each if isinstance(each, str) else "" for each in texts)
    return AdminEvent(time, operation, kind, path)


FetchEvents = Callable[[int, int], Awaitable[list[dict[str, Any]]]]
"""Returns events, the newest one first. Takes the number of events to skip, and how many to return.
Raises RequestFault."""
FindNames = Callable[[Collection[str]], Awaitable[Collection[str] | None]]
"""Returns the names of users, as callers know them, by their ids; None if some are unknown. Raises
RequestFault."""


@dataclass(eq=False)
class AdminEventFollower:
    """Follows a realm once, until a fault.

    Args:
        require_events: Raises RequestFault unless the realm records admin events.
        fetch: Returns events.
        names_of: Returns the names of users.
        interval: The pause between requests, in seconds.
        is_vague: Whether callers may spell names in any case, so that every change concerns
            everybody.
    """

    require_events: Callable[[], Awaitable[None]]
    fetch: FetchEvents
    names_of: FindNames
    interval: float
    is_vague: bool
    _newest: AdminEvent | None = field(default=None, init=False)
    _seen: frozenset[AdminEvent] = field(default=frozenset(), init=False)

    async def run(self, sink: ChangeSink) -> None:
        """Follow the realm until cancelled. Raises CannotFollow."""
        try:
            await self._run(sink)
        except RequestFault as fault:
            raise CannotFollow(fault.text) from None

    async def _run(self, sink: ChangeSink) -> None:
        # The lookup after a report may get groups from a cache of Keycloak.
        reports = RepeatedReports(sink, self.interval)
        if sink.position is None:
            await self.require_events()
            await self._read(max_pages=1)  # concerns nobody: everybody is invalidated now
            sink.reached(self._position())
        else:
            self._newest = decode_position(sink.position)
            reports.report(await self._changed(), self._position())
        while True:
            await asyncio.sleep(self.interval)
            reports.repeat()
            reports.report(await self._changed(), self._position())

    async def _changed(self) -> Collection[str] | None:
        """Return the users whose groups may have changed since the last time; None for all."""
        new = await self._read()
        await self.require_events()  # otherwise, these are not all changes
        affected = Affected(is_all=True) if new is None else affected_by(new)
        if affected.is_all or (self.is_vague and affected.ids):
            return None
        return await self.names_of(affected.ids)

    async def _read(self, max_pages: int = MAX_PAGES) -> Collection[AdminEvent] | None:
        """Return the events that have not been read before; None if some may be missing."""
        newest = self._newest
        oldest = None if newest is None else newest.time - OVERLAP_MS
        read: dict[AdminEvent, None] = {}
        is_complete = False
        for page in range(max_pages):
            events = [parse_event(item) for item in await self.fetch(page * PAGE, PAGE)]
            read.update(dict.fromkeys(events))
            if len(events) < PAGE or (oldest is not None and events[-1].time < oldest):
                is_complete = True
                break
        self._newest = max(read, default=None, key=lambda event: event.time)
        seen, since = self._seen, (self._newest.time - OVERLAP_MS if self._newest else 0)
        self._seen = frozenset(event for event in read if event.time >= since)
        if not is_complete or (newest is not None and newest not in read):
            return None
        return [
            event
            for event in read
            if event not in seen and (oldest is None or event.time >= oldest)
        ]

    def _position(self) -> bytes:
        return json.dumps(self._newest).encode()


def decode_position(position: bytes) -> AdminEvent | None:
    """Return the newest event that was known, or None if there was none."""
    try:
        value = json.loads(position)
        if value is None:
            return None
        time, operation, kind, path = value
        return AdminEvent(int(time), str(operation), str(kind), str(path))
    except (ValueError, TypeError):
        return AdminEvent(0, "", "", "")  # no such event exists, so everybody is affected
