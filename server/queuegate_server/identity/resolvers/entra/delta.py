"""A tenant's changes, as shown by Microsoft Graph's delta queries.

A delta query returns the groups or users that have changed since the link at the end of the
previous answer. Members who were added to a group or removed from it are listed one by one, as are
the members of a new group. Any other change to a group counts as affecting all users, because its
members are not listed. Microsoft Graph's clock, and the groups in its earlier answers, decide
whether a group is new.
"""

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.rest.answer_limits import MAX_DELTA_PAGES
from queuegate_server.identity.rest.change_queries import AffectedIds
from queuegate_server.identity.rest.faults import Gone, RequestFault
from queuegate_server.identity.rest.paging import items_of, next_page
from queuegate_server.identity.rest.provider_names import address

NEW_FOR: Final = timedelta(minutes=15)
"""How long after its creation a group counts as new, because answers lag behind."""
_MEMBERS: Final = "members@delta"
_CREATED: Final = "createdDateTime"
"""A property that never changes, so it is sent only for new groups."""
_REMOVED: Final = "@removed"
_USER: Final = "#microsoft.graph.user"
_GROUP: Final = "#microsoft.graph.group"
_BELOW: Final = "/v1.0/"

Fetch = Callable[[URL], Awaitable[tuple[Any, float]]]
"""Returns the JSON at an address, and the server's time in Unix seconds. Raises Gone if a link is
too old, or another RequestFault."""


class DeltaQueries:
    """Queries a tenant for changes. Implements `ChangeQuery`.

    Args:
        api: The address of the API.
        selected: The properties of users and groups to watch for changes, by collection.
        fetch: Returns the JSON at an address.
    """

    def __init__(self, api: str, selected: Mapping[str, str], fetch: Fetch) -> None:
        self._starts = {
            kind: address(f"{api}/{kind}/delta", {"$select": properties, "$deltatoken": "latest"})
            for kind, properties in selected.items()
        }
        self._fetch = fetch
        self._links: dict[str, str] = {}
        self._new_groups = NewGroups()

    @property
    def position(self) -> bytes:
        """The links to the next changes."""
        return json.dumps(self._links, separators=(",", ":")).encode()

    async def begin(self) -> None:
        """Start from the present. Raises RequestFault."""
        for kind in self._starts:
            await self._read(kind, DeltaChanges(self._new_groups))

    def resume(self, position: bytes) -> None:
        """Continue from the links in a position. For unusable links, new ones are requested."""
        try:
            known = json.loads(position)
        except ValueError:
            known = None
        self._links = {}
        for kind, start in self._starts.items():
            with contextlib.suppress(RequestFault):
                link = known.get(kind) if isinstance(known, dict) else None
                self._links[kind] = str(next_page(link, start, _BELOW, kind))

    async def changed(self) -> AffectedIds:
        """Return users whose groups may have changed since the last call. Raises RequestFault."""
        changes = DeltaChanges(self._new_groups)
        for kind in self._starts:
            if kind not in self._links:
                changes.is_all = True
            try:
                await self._read(kind, changes)
            except Gone:
                changes.is_all = True
                self._links.pop(kind, None)
                await self._read(kind, changes)
        return AffectedIds(tuple(changes.ids), changes.is_all)

    async def _read(self, kind: str, changes: "DeltaChanges") -> None:
        """Read all changes in a collection, and remember the link to the next changes."""
        start, what = self._starts[kind], f"changes of {kind}"
        url = URL(self._links[kind], encoded=True) if kind in self._links else start
        for _ in range(MAX_DELTA_PAGES):
            body, seconds = await self._fetch(url)
            now = datetime.fromtimestamp(seconds, UTC)
            self._new_groups.note_answer(now)
            given = body if isinstance(body, dict) else {}
            for item in items_of(given.get("value"), what):
                changes.add(kind, item, now)
            end = given.get("@odata.deltaLink")
            link = given.get("@odata.nextLink") if end is None else end
            if link is None:
                raise RequestFault(f"{what}: the server sent no link to further changes")
            url = next_page(link, start, _BELOW, what)
            if end is not None:
                self._links[kind] = str(url)
                return
        raise Gone(f"{what}: more than {MAX_DELTA_PAGES} pages")


class NewGroups:
    """Decides whether a group is new. A new group was created after following began, shortly before
    the answer, and no earlier answer contained it. Otherwise, one of its properties has changed.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._known: dict[str, datetime] = {}
        """When each group was found to be new, the oldest first."""

    def note_answer(self, now: datetime) -> None:
        """Record the time of an answer, by the server's clock."""
        self._since = self._since or now
        while self._known and next(iter(self._known.values())) < now - NEW_FOR:
            del self._known[next(iter(self._known))]

    def contain(self, group: Mapping[str, Any], now: datetime) -> bool:
        """Return whether a group in an answer is new. `now` is the time of the answer."""
        key = group.get("id")
        if self._since is None or not isinstance(key, str) or key in self._known:
            return False
        try:
            created = datetime.fromisoformat(str(group.get(_CREATED)))
            if created <= max(self._since, now - NEW_FOR):
                return False
        except (ValueError, TypeError):
            return False
        self._known[key] = now
        return True


class DeltaChanges:
    """Collects the users whose groups may have changed."""

    def __init__(self, new_groups: NewGroups) -> None:
        self.ids: dict[str, None] = {}
        self.is_all = False
        self._new_groups = new_groups

    def add(self, kind: str, item: Mapping[str, Any], now: datetime) -> None:
        """Add the users affected by a changed user or group. `now` is the time of the answer."""
        has_properties = any(not name.startswith("@") for name in item.keys() - {"id", _MEMBERS})
        if kind == "users" and _REMOVED not in item:
            self._add_user(item)
        elif _REMOVED in item or (has_properties and not self._new_groups.contain(item, now)):
            self.is_all = True
        else:
            members = item.get(_MEMBERS, [])
            for member in members if isinstance(members, list) else [None]:
                self._add_member(member)

    def _add_member(self, member: object) -> None:
        given = member if isinstance(member, dict) else {}
        kind = given.get("@odata.type")
        if kind == _USER:
            self._add_user(given)
        elif kind == _GROUP or not isinstance(kind, str):
            self.is_all = True  # the members of a nested group are not listed

    def _add_user(self, user: Mapping[str, Any]) -> None:
        key = user.get("id")
        if isinstance(key, str) and key:
            self.ids[key] = None
        else:
            self.is_all = True
