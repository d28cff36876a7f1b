"""A realm's changes, as its admin events show them.

Keycloak records what administrators change, if the realm is set up to do so, and lists the newest
event first. An event has the node's time from before the event became visible, so an event can
appear below events that were read long ago, if the clocks of two nodes differ or a clock was
corrected. Therefore, an event is new if it has not been read before, regardless of its time.
"""

import hashlib
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from queuegate_server.identity.rest.answer_limits import MAX_EVENT_PAGES
from queuegate_server.identity.rest.change_queries import AffectedIds
from queuegate_server.identity.rest.faults import RequestFault

_LOG = logging.getLogger("queuegate_server.identity.keycloak")

PAGE: Final = 100
READ_ALL_SECONDS: Final = 30.0
"""How often all MAX_EVENT_PAGES are read. In between, only the pages with new events at the top are
read.
"""
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
_SKEW_SECONDS: Final = 5.0
"""How far a node's clock may lag without causing a full read to miss its events, in seconds."""
_VERSION: Final = b"3"
"""The first byte of a position."""
_TIME_BYTES: Final = 8
_DIGEST_BYTES: Final = 8

FetchEvents = Callable[[int, int], Awaitable[tuple[list[dict[str, Any]], float]]]
"""Returns events, the newest one first, and Keycloak's time, in Unix seconds. Takes the number of
events to skip, and how many to return. Raises RequestFault."""


class AdminEvent(NamedTuple):
    """A recorded change. Two events that are equal have the same effect."""

    time: int
    """When it was recorded, in Unix milliseconds."""
    operation: str
    kind: str
    path: str
    key: str = ""
    """The ID, in releases of Keycloak that show it."""

    @property
    def digest(self) -> bytes:
        """A hash of the event, by which it is remembered."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=_DIGEST_BYTES).digest()


class _Reading(NamedTuple):
    """The events returned by one reading."""

    events: dict[bytes, AdminEvent]
    """The events by their digests, the newest one first."""
    is_end: bool = False
    """Whether these are all events."""
    hides_new: bool = False
    """Whether new events may be below all events that can be read, because none of those is older
    than the last full read.
    """
    full_read: "_FullRead | None" = None
    """When the reading began, if it was a full one."""


class _FullRead(NamedTuple):
    """When a full reading, which reads all pages, began."""

    at: float = -math.inf
    """The time on the monotonic clock, in seconds."""
    unix_seconds: int = 0
    """The same time for the next follower, rounded down."""


class _Position(NamedTuple):
    """The position from which another follower continues."""

    full_read_unix_seconds: int
    digests: dict[bytes, None]


class AdminEvents:
    """Reads the admin events of a realm. Implements `ChangeQuery`.

    Args:
        require_events: Raises RequestFault unless the realm records admin events.
        fetch: Returns events.
        clock: A monotonic clock, in seconds.
        unix_time: Returns this host's time, in Unix seconds.
    """

    def __init__(
        self,
        require_events: Callable[[], Awaitable[None]],
        fetch: FetchEvents,
        clock: Callable[[], float] = time.monotonic,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        self._require_events = require_events
        self._fetch = fetch
        self._clock = clock
        self._unix_time = unix_time
        self._seen: dict[bytes, None] | None = None
        """The digests of the events that have been read, the newest one first; None if they are
        unknown."""
        self._full_read = _FullRead()
        """The last full reading, whose events are among those seen."""

    @property
    def position(self) -> bytes:
        """The time of the last full read, and the digests of the events that have been read."""
        at = self._full_read.unix_seconds.to_bytes(_TIME_BYTES)
        return _VERSION + at + b"".join(self._seen or ())

    async def begin(self) -> None:
        """Start from the newest events. Raises RequestFault."""
        await self._require_events()
        reading = await self._read()
        self._seen = dict.fromkeys(reading.events)
        self._full_read = reading.full_read or self._full_read

    def resume(self, position: bytes) -> None:
        """Continue after the events that were read."""
        decoded = decode_position(position)
        if decoded is None:
            return
        unix_seconds, self._seen = decoded
        since = self._unix_time() - unix_seconds
        if since >= 0:  # if negative, a clock was wrong, so the time is unknown
            self._full_read = _FullRead(self._clock() - since, unix_seconds)

    async def changed(self) -> AffectedIds:
        """Return users whose groups may have changed since the last call. Raises RequestFault."""
        before = self._seen
        read, is_end, hides_new, full_read = await self._read()
        await self._require_events()  # otherwise, these are not all changes
        self._full_read = full_read or self._full_read
        known = before or {}
        is_all = before is None
        if not (is_all or known.keys() & read.keys()) and (known or not is_end):
            is_all = True
            _LOG.warning(
                "Keycloak admin events may be missing, because none of the newest %d had been "
                "read before: the groups of all users are looked up again",
                len(read),
            )
        elif hides_new:
            is_all = True
            _LOG.warning(
                "Keycloak admin events may be missing, because the newest %d are all newer "
                "than the last full reading, or from the future: the groups of all users are "
                "looked up again; check the clocks of Keycloak's nodes, unless Keycloak was "
                "unreachable for a while",
                len(read),
            )
        if is_all:
            self._seen = dict.fromkeys(read)
            return AffectedIds(is_all=True)
        self._seen = dict.fromkeys(islice({**read, **known}, MAX_EVENT_PAGES * PAGE))
        return affected_by(event for digest, event in read.items() if digest not in known)

    async def _read(self) -> _Reading:
        """Return events.

        Usually stops after a page that ends with an event that was read before, but sometimes reads
        all pages. An event at the top proves nothing: its time may be in the future.
        """
        now, known = self._clock(), self._seen or {}
        since = now - self._full_read.at
        reads_all = since >= READ_ALL_SECONDS
        full_read = _FullRead(now, int(self._unix_time())) if reads_all else None
        read: dict[bytes, AdminEvent] = {}
        server_time = 0.0
        for page in range(MAX_EVENT_PAGES):
            items, server_time = await self._fetch(page * PAGE, PAGE)
            events = {event.digest: event for event in map(parse_event, items)}
            read.update(events)
            if len(items) < PAGE:
                return _Reading(read, is_end=True, full_read=full_read)
            if not reads_all and list(events)[-1] in known:
                return _Reading(read)
        # If a clock was set back since the last full read, new events are at most that old.
        oldest = min(event.time for event in read.values())
        hides_new = reads_all and oldest > (server_time - since - _SKEW_SECONDS) * 1000
        return _Reading(read, hides_new=hides_new, full_read=full_read)


def affected_by(events: Iterable[AdminEvent]) -> AffectedIds:
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
            return AffectedIds(is_all=True)
        ids[user] = None
    return AffectedIds(tuple(ids))


def parse_event(item: dict[str, Any]) -> AdminEvent:
    """Return an event in an answer. Raises RequestFault."""
    at = item.get("time")
    if isinstance(at, bool) or not isinstance(at, int):
        raise RequestFault("events: an event has no usable time")
    texts = (item.get(key) for key in ("operationType", "resourceType", "resourcePath", "id"))
    return AdminEvent(at, *(each if isinstance(each, str) else "" for each in texts))


def decode_position(position: bytes) -> _Position | None:
    """Return the parts of a position; None if it has another version."""
    rest = position.removeprefix(_VERSION)
    at, digests = rest[:_TIME_BYTES], rest[_TIME_BYTES:]
    count, excess = divmod(len(digests), _DIGEST_BYTES)
    if rest == position or len(at) < _TIME_BYTES or excess or count > MAX_EVENT_PAGES * PAGE:
        return None
    starts = range(0, len(digests), _DIGEST_BYTES)
    seen = dict.fromkeys(digests[start : start + _DIGEST_BYTES] for start in starts)
    return _Position(int.from_bytes(at), seen)
