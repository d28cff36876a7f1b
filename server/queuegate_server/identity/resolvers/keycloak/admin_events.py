"""The changes of a realm, as its admin events show them.

Keycloak records what administrators change, if the realm is set up to do so. An event gets its
time before it becomes visible, so events of the last minute are always read again. The newest known
event must be among them: otherwise, events have been deleted, and everybody may be affected.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final, NamedTuple

from queuegate_server.identity.rest.faults import RequestFault
from queuegate_server.identity.rest.following import AffectedUsers

OVERLAP_MS: Final = 60_000
"""How long an event may take to become visible, in milliseconds, with any difference of clocks."""
PAGE: Final = 100
MAX_PAGES: Final = 10
"""If there are more pages of new events, everybody is affected."""
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

FetchEvents = Callable[[int, int], Awaitable[list[dict[str, Any]]]]
"""Returns events, the newest one first. Takes the number of events to skip, and how many to return.
Raises RequestFault."""


class AdminEvent(NamedTuple):
    """A recorded change. Two events that are equal have the same effect."""

    time: int
    """In milliseconds."""
    operation: str
    kind: str
    path: str


_UNKNOWN: Final = AdminEvent(0, "", "", "")
"""An event that does not exist."""


class AdminEvents:
    """Reads the admin events of a realm. Implements `ChangeQuery`.

    Args:
        require_events: Raises RequestFault unless the realm records admin events.
        fetch: Returns events.
    """

    def __init__(self, require_events: Callable[[], Awaitable[None]], fetch: FetchEvents) -> None:
        self._require_events = require_events
        self._fetch = fetch
        self._newest: AdminEvent | None = None
        self._seen: frozenset[AdminEvent] = frozenset()

    @property
    def position(self) -> bytes:
        """The newest event that has been read."""
        return json.dumps(self._newest).encode()

    async def begin(self) -> None:
        """Begin at the newest event. Raises RequestFault."""
        await self._require_events()
        await self._read(max_pages=1)

    def resume(self, position: bytes) -> None:
        """Continue at an event."""
        self._newest = decode_position(position)

    async def changed(self) -> AffectedUsers:
        """Return users whose groups may have changed since the last call. Raises RequestFault."""
        new = await self._read()
        await self._require_events()  # otherwise, these are not all changes
        return AffectedUsers(is_all=True) if new is None else affected_by(new)

    async def _read(self, max_pages: int = MAX_PAGES) -> Collection[AdminEvent] | None:
        """Return the events that have not been read before; None if some may be missing."""
        newest = self._newest
        oldest = None if newest is None else newest.time - OVERLAP_MS
        read: dict[AdminEvent, None] = {}
        is_complete = False
        for page in range(max_pages):
            events = [parse_event(item) for item in await self._fetch(page * PAGE, PAGE)]
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


def affected_by(events: Iterable[AdminEvent]) -> AffectedUsers:
    """Return the users whose groups may have changed.

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
            return AffectedUsers(is_all=True)
        ids[user] = None
    return AffectedUsers(tuple(ids))


def parse_event(item: dict[str, Any]) -> AdminEvent:
    """Return an event in an answer. Raises RequestFault."""
    time = item.get("time")
    if isinstance(time, bool) or not isinstance(time, int):
        raise RequestFault("events: an event has no usable time")
    texts = (item.get(key) for key in ("operationType", "resourceType", "resourcePath"))
    return AdminEvent(time, *(each if isinstance(each, str) else "" for each in texts))


def decode_position(position: bytes) -> AdminEvent | None:
    """Return the newest event that was known, or None if there was none."""
    try:
        value = json.loads(position)
        if value is None:
            return None
        time, operation, kind, path = value
        return AdminEvent(int(time), str(operation), str(kind), str(path))
    except (ValueError, TypeError, OverflowError):
        return _UNKNOWN
