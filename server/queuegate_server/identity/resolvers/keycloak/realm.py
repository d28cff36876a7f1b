"""Lookups in a Keycloak realm.

The API is described in Keycloak's Admin REST API documentation. Without the right to view users, it
returns an empty list instead of an error, so a missing user is reported only once the API is known
to show users.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.members import SEVERAL_GROUPS, MemberListing
from queuegate_server.identity.resolver import ChangeSink, KnownUser, NoSuchUser, Outcome
from queuegate_server.identity.resolvers.keycloak.admin_events import TYPES, AdminEvents
from queuegate_server.identity.resolvers.keycloak.federation import (
    federation_note,
    federation_of,
)
from queuegate_server.identity.resolvers.keycloak.keycloak_options import KeycloakOptions
from queuegate_server.identity.resolvers.keycloak.paths import (
    ambiguous_path,
    ancestors,
    escaped,
    leaf,
    may_have_slash_above,
    names_itself,
)
from queuegate_server.identity.resolvers.keycloak.user_names import UNSEARCHABLE, UserNames
from queuegate_server.identity.rest.access_tokens import AccessToken, TokenCache
from queuegate_server.identity.rest.answer_limits import MAX_SIMILAR_GROUPS
from queuegate_server.identity.rest.answers import server_time, text_field
from queuegate_server.identity.rest.change_queries import follow
from queuegate_server.identity.rest.faults import NotFound, RequestFault, UnusableAnswer
from queuegate_server.identity.rest.paging import ask_each, items_of, offset_pages
from queuegate_server.identity.rest.provider import Pages, Provider
from queuegate_server.identity.rest.provider_names import (
    ABSENT,
    DISABLED,
    FormerNames,
    address,
    ambiguous_name,
    other_spelling,
    segment,
    spelled,
    too_many_groups,
)
from queuegate_server.identity.rest.provider_options import secret_in, version_of
from queuegate_server.identity.rest.rest_client import RestClient
from queuegate_server.identity.unique_names import UniqueNames
from queuegate_server.runtime.pacing import in_steps

CHANGES_SECONDS: Final = 5.0
"""How often Keycloak is asked for its admin events, with one request, and how long after a change
the change is applied again.
"""
PAGE_SIZE: Final = 500
"""The number of entries per page. Keycloak would send any number, but larger pages would only take
longer to arrive.
"""
RIGHTS_SECONDS: Final = 60.0
"""How long after a check the API counts as showing users, and names count as protected."""
UNVERIFIED: Final = NoSuchUser("the user's email address is not verified")


class Realm(Provider):
    """The users and groups of a realm."""

    def __init__(
        self, options: KeycloakOptions, client: RestClient, clock: Callable[[], float]
    ) -> None:
        self._options = options
        self._client = client
        self._clock = clock
        base, realm = options.url.rstrip("/"), segment(options.realm)
        self._token_url = URL(f"{base}/realms/{realm}/protocol/openid-connect/token", encoded=True)
        self._api = f"{base}/admin/realms/{realm}"
        self.credentials = TokenCache(
            self._token,
            lambda: version_of(options.client_secret_file),
            clock,
        )
        self.former_names = FormerNames(options)
        self._unique = UniqueNames(ambiguous_name, clock)
        self._shows_users_until = -math.inf
        self._protects_names_until = -math.inf
        self._names = UserNames(options)
        self._federation: tuple[str, str | None] = "", None
        """The name of the user looked up last, and the federation's ID. `notes` uses both."""

    async def look_up(self, name: str) -> Outcome:
        """Look up a user by the provider's name."""
        self._federation = name, None
        if not self._names.is_searchable(name):
            return UNSEARCHABLE
        await self._require_protection()
        users = await self._list("user", "/users", self._names.query(name))
        user = self._names.with_name(users, name)
        if user is None:
            await self._require_users()
            return other_spelling(self._names.of(users[0]), name) if users else ABSENT
        if user.get("enabled") is not True:
            return DISABLED
        if self._options.user_name == "email" and user.get("emailVerified") is not True:
            return UNVERIFIED
        self._federation = name, federation_of(user)
        key = text_field(user, "id", "user")
        self.former_names.note(key, name)
        try:
            return KnownUser(await self._groups_of(key))
        except NotFound:
            return ABSENT  # deleted since the first request

    async def notes(self, name: str) -> Collection[str]:
        """Return what an administrator should know about a user who has just been looked up."""
        user, federation = self._federation
        if user != name or federation is None:
            return ()
        url = URL(f"{self._api}/components/{segment(federation)}", encoded=True)
        try:
            body, _ = await self._client.get("federation", url, self.credentials, is_optional=True)
        except RequestFault:
            body = None
        return (federation_note(body if isinstance(body, dict) else None),)

    async def members(self, listing: MemberListing) -> None:
        """List group members, including the members of the groups below if `parents` is set."""
        await self._require_protection()
        self._shows_users_until = -math.inf  # a list may be used for longer than a lookup
        for name in listing.pending:
            path_name = name if self._options.group_name == "name" else leaf(name)
            if not path_name:
                listing.done(name)
                continue
            listing.count_search()
            found = [each for each in await self._search(path_name) if self._is(each, name)]
            if not found:
                await self._require_users()  # a client that sees no users sees no groups either
            if self._options.group_name == "name" and len(found) > 1:
                listing.done(name, SEVERAL_GROUPS)
                continue
            for group in found:
                await self._add_members(listing, name, group, ())
            listing.done(name)

    async def users(self, limit: int) -> Collection[str]:
        """Return all users, as callers know them. Raises CannotListUsers if over `limit`."""
        await self._require_protection()
        names = await super().users(limit)
        if not names:
            await self._require_users()
        return names

    def user_pages(self) -> Pages:
        """Return all users, page by page."""
        return self._pages("users", "/users", self._names.representation)

    async def follow(self, sink: ChangeSink) -> None:
        """Follow the realm's changes until cancelled. Raises CannotFollow."""
        options = self._options
        await follow(
            AdminEvents(self._require_events, self._events),
            sink,
            self._names_of,
            self.former_names,
            interval=CHANGES_SECONDS,
            repeat_after=CHANGES_SECONDS,
            is_vague=options.user_match == "casefold",
        )

    async def _require_events(self) -> None:
        """Raise RequestFault unless the realm records admin events."""
        url = URL(f"{self._api}/events/config", encoded=True)
        body = await self._get("event settings", url, "view-events")
        if not isinstance(body, dict) or body.get("adminEventsEnabled") is not True:
            raise RequestFault(
                "the realm does not record admin events",
                "turn on Realm settings, Events, Admin events settings, Save events",
            )

    async def _events(self, first: int, size: int) -> tuple[list[dict[str, Any]], float]:
        url = address(f"{self._api}/admin-events", {"first": str(first), "max": str(size)})
        types = "".join(f"&resourceTypes={kind}" for kind in TYPES)
        url = URL(f"{url}{types}", encoded=True)
        body, headers = await self._answer("events", url, "view-events")
        return items_of(body, "events"), server_time(headers)

    async def _names_of(self, key: str) -> Collection[str]:
        """Return the names of a user, enabled or not, given the id. Raises NotFound,
        RequestFault.
        """
        url = URL(f"{self._api}/users/{segment(key)}", encoded=True)
        user = await self._get("user", url, "view-users")
        return self._names.listed(user if isinstance(user, dict) else {})

    async def _groups_of(self, user: str) -> tuple[str, ...]:
        """Return the names of a user's groups, and of those above them if `parents` is set."""
        by_name = self._options.group_name == "name"
        names: dict[str, str] = {}
        async for page in self._pages("groups", f"/users/{segment(user)}/groups", {}):
            async for group in in_steps(page):
                path, name = (
                    text_field(group, "path", "groups"),
                    text_field(group, "name", "groups"),
                )
                names[path] = name
                if self._options.parents or not by_name:
                    above = await self._above(group, path, name)
                    names |= above if self._options.parents else {}
                if len(names) > self._options.max_groups:
                    raise too_many_groups(self._options)
        if not by_name:
            return spelled(names, self._options)
        await self._unique.check(
            ((spelled([name], self._options)[0], path) for path, name in names.items()),
            self._paths_of,
        )
        return spelled(names.values(), self._options)

    async def _above(self, group: Mapping[str, Any], path: str, name: str) -> dict[str, str]:
        """Return the names of the groups above a group, by their paths.

        Raises UnusableData if, as far as Keycloak shows, a path could belong to another group.
        """
        found: dict[str, str] = {}
        while names_itself(path, name):
            if not may_have_slash_above(path, name):
                return found | {above: leaf(above) for above in ancestors(path)}
            if len(found) > self._options.max_groups:
                raise too_many_groups(self._options)
            parent = text_field(group, "parentId", "groups")
            url = URL(f"{self._api}/groups/{segment(parent)}", encoded=True)
            body = await self._get("group above", url, "view-users")
            group = body if isinstance(body, dict) else {}
            below, name_below = path, name
            path = text_field(group, "path", "group above")
            name = text_field(group, "name", "group above")
            if f"{path}/{escaped(name_below)}" != below:
                raise ambiguous_path(below, name_below)
            found[path] = name
        raise ambiguous_path(path, name)

    async def _paths_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the paths of all groups with each of the given names."""

        async def paths_of(name: str) -> list[str]:
            return [
                text_field(each, "path", "group names")
                for each in await self._search(name)
                if spelled([text_field(each, "name", "group names")], self._options) == (name,)
            ]

        return await ask_each(names, paths_of)

    async def _search(self, name: str) -> list[dict[str, Any]]:
        """Return all groups with a name, and possibly other groups."""
        query = {"search": name, "populateHierarchy": "false", "max": str(MAX_SIMILAR_GROUPS)}
        if self._options.name_case == "preserve":
            query["exact"] = "true"
        found = await self._list("group names", "/groups", query)
        if len(found) >= MAX_SIMILAR_GROUPS:
            raise UnusableAnswer(
                f"more than {MAX_SIMILAR_GROUPS} groups have a name like {name[:200]!r}"
            )
        return found

    def _is(self, group: Mapping[str, Any], name: str) -> bool:
        path = text_field(group, "path", "group names")
        own = text_field(group, "name", "group names")
        if self._options.group_name == "name":
            return spelled([own], self._options) == (name,)
        return names_itself(path, own) and spelled([path], self._options) == (name,)

    async def _add_members(
        self, listing: MemberListing, name: str, group: Mapping[str, Any], above: tuple[str, ...]
    ) -> None:
        """Add the members of a group, and of those below it if `parents` is set."""
        key = segment(text_field(group, "id", "groups"))
        async for page in self._pages(
            "members", f"/groups/{key}/members", self._names.representation, listing
        ):
            async for user in in_steps(self.listed(page)):
                listing.add(name, user, above)
        if not self._options.parents:
            return
        async for page in self._pages("groups", f"/groups/{key}/children", {}, listing):
            for child in page:
                where = text_field(child, "path", "groups")
                shown = where if self._options.group_name == "path" else leaf(where)
                await self._add_members(listing, name, child, (*above, shown))

    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, omitting users without such a name."""
        for user in users:
            if user.get("enabled") is True:
                yield from self._names.listed(user)

    async def _require_users(self) -> None:
        """Raise RequestFault if the API shows no users at all."""
        if self._clock() < self._shows_users_until:
            return
        if not await self._list("rights", "/users", {"max": "1"}):
            raise RequestFault(
                "the realm shows the client no users",
                "give its service account the view-users role of realm-management, because "
                "query-users alone shows none",
            )
        self._shows_users_until = self._clock() + RIGHTS_SECONDS

    async def _require_protection(self) -> None:
        """Raise RequestFault if names are attributes that users may edit, or that are not shown."""
        if self._options.user_attribute is None or self._clock() < self._protects_names_until:
            return
        url = URL(f"{self._api}/users/profile", encoded=True)
        self._names.check_profile(await self._get("user profile", url, "view-users"))
        self._protects_names_until = self._clock() + RIGHTS_SECONDS

    async def _list(self, what: str, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        url = address(self._api + path, {"briefRepresentation": "true", **query})
        # view-users includes query-groups.
        return items_of(await self._get(what, url, "view-users"), what)

    async def _get(self, what: str, url: URL, role: str) -> Any:
        """Return the JSON at an address that requires a role of realm-management."""
        body, _ = await self._answer(what, url, role)
        return body

    async def _answer(self, what: str, url: URL, role: str) -> tuple[Any, Mapping[str, str]]:
        """Return the JSON as `_get` does, and the answer's headers."""
        right = (
            f"the {role} role of realm-management, and leave Full scope allowed on in the client's "
            "scopes, or add the role there"
        )
        return await self._client.get(what, url, self.credentials, right=right)

    def _pages(
        self,
        what: str,
        path: str,
        query: Mapping[str, str],
        listing: MemberListing | None = None,
    ) -> Pages:
        """Return the pages of a list. The listing, if given, counts the requests."""

        async def fetch(first: int, size: int) -> list[dict[str, Any]]:
            if listing is not None:
                listing.count_search()
            return await self._list(what, path, {**query, "first": str(first), "max": str(size)})

        return offset_pages(fetch, lambda item: text_field(item, "id", what), PAGE_SIZE, what)

    async def _token(self) -> AccessToken:
        secret = await secret_in(self._options.client_secret_file, "client_secret_file")
        form = {
            "grant_type": "client_credentials",
            "client_id": self._options.client_id,
            "client_secret": secret,
        }
        return await self._client.token(self._token_url, form)
