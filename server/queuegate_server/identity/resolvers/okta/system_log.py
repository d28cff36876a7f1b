"""An organization's changes, as its System Log shows them.

Okta sorts the answers to polling requests by when events were stored, so events that become visible
late are not skipped. Each answer links to what was stored afterwards; a link is always followed,
because Okta's reference says that reading by time may skip events. Only the first request names a
time, which is Okta's own.
"""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from yarl import URL

from queuegate_server.identity.rest.answer_limits import MAX_LOG_PAGES
from queuegate_server.identity.rest.change_queries import AffectedIds
from queuegate_server.identity.rest.faults import BadRequest, Gone, RequestFault
from queuegate_server.identity.rest.paging import items_of, next_page
from queuegate_server.identity.rest.provider_names import address

OVERLAP_SECONDS: Final = 300.0
"""How long before the present the first request begins: more than Okta takes to store an event."""
MAX_CLOCK_DIFFERENCE: Final = 30.0
"""If our clock differs from Okta's by more than this many seconds, the first request is repeated
with Okta's time.
"""
OF_USERS: Final = frozenset(
    {
        "group.user_membership.add",
        "group.user_membership.remove",
        "user.account.update_primary_email",
        "user.account.update_profile",
        "user.lifecycle.activate",
        "user.lifecycle.create",
        "user.lifecycle.deactivate",
        "user.lifecycle.reactivate",
        "user.lifecycle.suspend",
        "user.lifecycle.unsuspend",
    }
)
"""Types of events that affect the users among their targets."""
OF_EVERYBODY: Final = frozenset(
    {
        "group.lifecycle.delete",
        "group.profile.update",
        "group.user_membership.rule.deactivated",
        "system.import.complete",
        "system.import.group.delete",
        "system.import.group.update",
        "system.import.group_membership.complete",
        "system.import.membership_processing.complete",
        "system.import.user.delete",
        "system.import.user.suspend",
        "system.import.user.unsuspend",
        "system.import.user.update_user_lifecycle_from_master",
        "user.lifecycle.delete.completed",
        "user.lifecycle.delete.initiated",
    }
)
"""Types of events that do not list all affected users, or whose users have lost their names."""
FILTER: Final = " or ".join(f'eventType eq "{kind}"' for kind in sorted(OF_USERS | OF_EVERYBODY))


class LogAnswer(NamedTuple):
    """An answer to a request for events."""

    body: Any
    link: str | None
    """The link to further events."""
    time: float
    """Okta's time, in Unix seconds."""


Fetch = Callable[[URL], Awaitable[LogAnswer]]
"""Returns the events at an address. Raises RequestFault."""


class SystemLog:
    """Reads the System Log of an organization. Implements `ChangeQuery`.

    Args:
        api: The address of the API.
        page_size: The number of events per page.
        fetch: Returns the events at an address.
        clock: The time, in Unix seconds.
    """

    def __init__(
        self, api: str, page_size: int, fetch: Fetch, clock: Callable[[], float] = time.time
    ) -> None:
        self._api = f"{api}/logs"
        self._page_size = page_size
        self._fetch = fetch
        self._clock = clock
        self._next: URL | None = None

    @property
    def position(self) -> bytes:
        """The link to the next events, and the filter with which it was requested."""
        return json.dumps([FILTER, str(self._next)], separators=(",", ":")).encode()

    async def begin(self) -> None:
        """Start from the present. Raises RequestFault."""
        now = self._clock()
        answer = await self._fetch(self._start(now))
        if abs(answer.time - now) > MAX_CLOCK_DIFFERENCE:
            answer = await self._fetch(self._start(answer.time))
        _, self._next = self._page_in(answer)

    def _start(self, now: float) -> URL:
        """Return the address of the events since shortly before `now`, in Unix seconds."""
        query = {
            "since": _timestamp(now - OVERLAP_SECONDS),
            "sortOrder": "ASCENDING",
            "filter": FILTER,
            "limit": str(self._page_size),
        }
        return address(self._api, query)

    def resume(self, position: bytes) -> None:
        """Continue at a link, unless it is unusable or has another filter."""
        self._next = None
        try:
            known, link = json.loads(position)
            if known == FILTER:
                self._next = self._checked(link)
        except (ValueError, TypeError, RequestFault):
            return

    async def changed(self) -> AffectedIds:
        """Return users whose groups may have changed since the last call. Raises RequestFault."""
        try:
            return await self._read()
        except (Gone, BadRequest):
            await self.begin()
            return AffectedIds(is_all=True)

    async def _read(self) -> AffectedIds:
        """Read new events, and remember the link to the next events.

        Raises Gone if there is no link, or another RequestFault.
        """
        if self._next is None:
            raise Gone("events: the position is unknown")
        link, ids, is_all = self._next, dict[str, None](), False
        for _ in range(MAX_LOG_PAGES):
            events, link = self._page_in(await self._fetch(link))
            affected = affected_by(events)
            ids |= dict.fromkeys(affected.ids)
            is_all |= affected.is_all
            if not events:
                break
        self._next = link
        return AffectedIds(tuple(ids), is_all or bool(events))

    def _page_in(self, answer: LogAnswer) -> tuple[list[dict[str, Any]], URL]:
        events = items_of(answer.body, "events")
        if answer.link is None:
            raise RequestFault("events: the server sent no link to further events")
        return events, self._checked(answer.link)

    def _checked(self, link: object) -> URL:
        start = URL(self._api, encoded=True)
        return next_page(link, start, start.raw_path, "events")


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def affected_by(events: Iterable[Mapping[str, Any]]) -> AffectedIds:
    """Return the users whose groups may have changed. Events of other types affect nobody."""
    ids: dict[str, None] = {}
    for event in events:
        kind = event.get("eventType")
        if not isinstance(kind, str) or kind in OF_EVERYBODY:
            return AffectedIds(is_all=True)
        if kind in OF_USERS:
            users = _users_of(event)
            if not users:
                return AffectedIds(is_all=True)
            ids |= dict.fromkeys(users)
    return AffectedIds(tuple(ids))


def _users_of(event: Mapping[str, Any]) -> list[str]:
    """Return the ids of the users that an event affects; none if one of them is unusable."""
    targets = event.get("target")
    if not isinstance(targets, list) or not all(isinstance(each, dict) for each in targets):
        return []
    ids = [each.get("id") for each in targets if each.get("type") == "User"]
    return ids if all(isinstance(each, str) and each for each in ids) else []
