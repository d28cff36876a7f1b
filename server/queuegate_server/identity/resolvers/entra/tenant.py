"""Lookups in a tenant of Microsoft Entra ID.

The requests are described in the reference of Microsoft Graph 1.0. A cast to groups needs the
header ConsistencyLevel and `$count`, and reads an index that follows changes with a delay.
"""

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.long_work import in_steps
from queuegate_server.identity.members import SEVERAL_GROUPS, MemberListing
from queuegate_server.identity.resolver import ChangeSink, KnownUser, Outcome
from queuegate_server.identity.resolvers.entra.delta import DeltaQueries
from queuegate_server.identity.resolvers.entra.options import EntraOptions
from queuegate_server.identity.rest.answers import server_time, text_field
from queuegate_server.identity.rest.assertion import (
    assertion_form,
    bearer_form,
    parse_certificate,
)
from queuegate_server.identity.rest.client import RestClient
from queuegate_server.identity.rest.faults import NotFound, RequestFault, UnusableData
from queuegate_server.identity.rest.following import follow
from queuegate_server.identity.rest.names import (
    ABSENT,
    DISABLED,
    IMPOSSIBLE,
    WITHOUT_SUFFIX,
    FormerNames,
    address,
    ambiguous_name,
    batches,
    is_same,
    listed_name,
    other_spelling,
    segment,
    spelled,
    too_many_groups,
)
from queuegate_server.identity.rest.options import secret_in, version_of
from queuegate_server.identity.rest.paging import linked_pages
from queuegate_server.identity.rest.resolver import Provider
from queuegate_server.identity.rest.tokens import AccessToken, TokenCache
from queuegate_server.identity.unique_names import UniqueNames

_ABSENT_CODE: Final = "Request_ResourceNotFound"
_UPN: Final = re.compile(r"[!#$&'*+\-.0-9=A-Z^_`a-z{|}~]+@[0-9A-Za-z.\-]+")
"""The characters of user principal names, and of those of guests."""
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_EVENTUAL: Final = {"ConsistencyLevel": "eventual"}

_USER_FIELDS: Final = {
    "upn": "userPrincipalName",
    "sam_account_name": "onPremisesSamAccountName",
}
_GROUP_FIELDS: Final = {
    "id": "id",
    "display_name": "displayName",
    "sam_account_name": "onPremisesSamAccountName",
}
_USER_QUERY: Final = {"$select": "id,accountEnabled,userPrincipalName,onPremisesSamAccountName"}
_SELECT_GROUP: Final = (
    "id,displayName,securityEnabled,onPremisesSyncEnabled,onPremisesSamAccountName"
)

_USER_CHANGES: Final = "userPrincipalName,accountEnabled,onPremisesSamAccountName"
_GROUP_CHANGES: Final = "members,createdDateTime,securityEnabled,onPremisesSyncEnabled"


class Tenant(Provider):
    """The users and groups of a tenant."""

    def __init__(
        self, options: EntraOptions, client: RestClient, clock: Callable[[], float]
    ) -> None:
        self._options = options
        self._client = client
        login, graph = options.addresses
        self._token_url = URL(f"{login}/{options.tenant}/oauth2/v2.0/token", encoded=True)
        self._scope = f"{graph}/.default"
        self._api = f"{graph}/v1.0"
        self._user_field = _USER_FIELDS[options.user_name]
        self._group_field = _GROUP_FIELDS[options.group_name]
        (self._credential,) = options.credentials
        self.credentials = TokenCache(
            self._token, lambda: version_of(self._credential), options.auth_retry_after, clock
        )
        self.former_names = FormerNames(options)
        self._unique = UniqueNames(ambiguous_name, clock)

    async def look_up(self, name: str) -> Outcome:
        """Look up a user by the provider's name."""
        if self._options.user_name == "upn" and not _UPN.fullmatch(name):
            return IMPOSSIBLE if "@" in name else WITHOUT_SUFFIX
        try:
            user = await self._user(name)
            if user is None:
                return ABSENT
            found = text_field(user, self._user_field, "user")
            if not is_same(found, name, self._options):
                return other_spelling(found, name)
            enabled = user.get("accountEnabled")
            if not isinstance(enabled, bool):
                raise RequestFault(
                    "user: the application may not see whether the account is enabled",
                    "grant it the application permission User.Read.All",
                )
            if not enabled:
                return DISABLED
            key = text_field(user, "id", "user")
            self.former_names.note(key, name)
            return KnownUser(await self._groups_of(key))
        except NotFound as fault:
            if fault.code != _ABSENT_CODE:
                raise
            return ABSENT

    async def members(self, listing: MemberListing) -> None:
        """List group members, including those of nested groups."""
        for name in listing.pending:
            found = [each async for each in self._named(name, listing)]
            if len(found) > 1:
                listing.done(name, SEVERAL_GROUPS)
                continue
            for group in found:
                key = segment(text_field(group, "id", "group"))
                path = f"/groups/{key}/transitiveMembers/microsoft.graph.user"
                query = _USER_QUERY | {"$count": "true"}
                async for page in self._pages("members", path, query, listing):
                    async for user in in_steps(self.listed(page)):
                        listing.add(name, user)
            listing.done(name)

    def user_pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Return all users, page by page."""
        return self._pages("users", "/users", _USER_QUERY)

    async def follow(self, sink: ChangeSink) -> None:
        """Follow the tenant's changes until cancelled. Raises CannotFollow."""
        options = self._options
        name = "" if options.group_name == "id" else f",{self._group_field}"
        selected = {"groups": _GROUP_CHANGES + name, "users": _USER_CHANGES}
        await follow(
            DeltaQueries(self._api, selected, self._changes),
            sink,
            self._names_of_user,
            self.former_names,
            interval=options.changes_interval,
            repeat_after=options.repeat_after,
            is_vague=options.user_match == "casefold",
        )

    async def _changes(self, url: URL) -> tuple[Any, float]:
        headers = {"Prefer": "return=minimal"}
        body, given = await self._client.get("changes", url, self.credentials, headers)
        return body, server_time(given)

    async def _names_of_user(self, key: str) -> Collection[str]:
        """Return the names of a user, enabled or not, by the id. Raises NotFound, RequestFault."""
        user = await self._get("user", address(f"{self._api}/users/{segment(key)}", _USER_QUERY))
        found = user.get(self._user_field) if isinstance(user, dict) else None
        name = listed_name(found, self._options) if isinstance(found, str) else None
        return () if name is None else (name,)

    async def _user(self, name: str) -> Mapping[str, Any] | None:
        if self._options.user_name == "sam_account_name":
            query = _USER_QUERY | {"$filter": f"{self._user_field} eq {_literal(name)}"}
            found: list[dict[str, Any]] = []
            async for page in self._pages("user", "/users", query | {"$count": "true"}):
                found += page
            if len(found) > 1:
                raise UnusableData(
                    f"several users have this {self._user_field}", "set user_name: upn"
                )
            return found[0] if found else None
        key = f"/{segment(name)}"
        if name.startswith("$"):  # otherwise, the API reads a request of another kind
            key = f"({segment(_literal(name))})"
        body = await self._get("user", address(f"{self._api}/users{key}", _USER_QUERY))
        return body if isinstance(body, dict) else {}

    async def _groups_of(self, user: str) -> tuple[str, ...]:
        names: dict[str, str] = {}
        query = {"$select": _SELECT_GROUP, "$count": "true"}
        path = f"/users/{segment(user)}/transitiveMemberOf/microsoft.graph.group"
        async for page in self._pages("groups", path, query):
            async for group in in_steps(page):
                name = self._name_of(group)
                if name is not None:
                    names[text_field(group, "id", "groups")] = name
            if len(names) > self._options.max_groups:
                raise too_many_groups(self._options)
        if self._options.group_name == "id":
            return spelled(names.values(), self._options)
        await self._unique.check(
            ((spelled([name], self._options)[0], key) for key, name in names.items()),
            self._ids_of,
        )
        return spelled(names.values(), self._options)

    def _name_of(self, group: Mapping[str, Any]) -> str | None:
        """Return a group's name; None if it does not count. Raises RequestFault."""
        is_security = group.get("securityEnabled")
        # Without permission, Microsoft Graph returns groups without their properties.
        if not isinstance(is_security, bool):
            raise RequestFault(
                "groups: the application may not see the properties of a group",
                "grant it the application permission GroupMember.Read.All",
            )
        if self._options.groups == "security" and not is_security:
            return None
        if self._options.groups == "synced" and group.get("onPremisesSyncEnabled") is not True:
            return None
        if self._options.group_name == "sam_account_name" and not group.get(self._group_field):
            return None  # not from an Active Directory
        return text_field(group, self._group_field, "groups")

    async def _named(self, name: str, listing: MemberListing) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the groups that a name stands for."""
        if self._options.group_name != "id":
            async for group in self._search([name], listing):
                if self._is(group, name):
                    yield group
        elif _ID.fullmatch(name):
            listing.count_search()
            url = address(f"{self._api}/groups/{segment(name)}", {"$select": _SELECT_GROUP})
            try:
                group = await self._get("group", url)
            except NotFound as fault:
                if fault.code != _ABSENT_CODE:
                    raise
                return
            if self._is(group, name):
                yield group

    def _is(self, group: Any, name: str) -> bool:
        own = self._name_of(group if isinstance(group, dict) else {})
        return own is not None and spelled([own], self._options) == (name,)

    async def _ids_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the ids of all groups that count and have any of the given names.

        Others cannot grant anything. Names that differ only in case are different, unless the
        settings ignore case.
        """
        ids: dict[str, list[str]] = {}
        async for group in self._search(names):
            if group.get("securityEnabled") is None:
                continue  # lookups of its members fail
            own = self._name_of(group)
            if own is not None:
                key = text_field(group, "id", "group names")
                ids.setdefault(spelled([own], self._options)[0], []).append(key)
        return ids

    async def _search(
        self, names: Collection[str], listing: MemberListing | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all groups with any of the given names, in any case."""
        for batch in batches(names):
            literals = ",".join(map(_literal, batch))
            query = {
                "$filter": f"{self._group_field} in ({literals})",
                "$select": _SELECT_GROUP,
                "$count": "true",
            }
            async for page in self._pages("group names", "/groups", query, listing):
                for group in page:
                    yield group

    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, except users whom they cannot know."""
        for user in users:
            found = user.get(self._user_field)
            name = listed_name(found, self._options) if isinstance(found, str) else None
            if name is not None and user.get("accountEnabled") is True:
                yield name

    async def _get(self, what: str, url: URL) -> Any:
        body, _ = await self._client.get(what, url, self.credentials)
        return body

    def _pages(
        self,
        what: str,
        path: str,
        query: Mapping[str, str],
        listing: MemberListing | None = None,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        headers = _EVENTUAL if "$count" in query else {}

        async def fetch(url: URL) -> tuple[Any, str | None]:
            if listing is not None:
                listing.count_search()
            body, _ = await self._client.get(what, url, self.credentials, headers)
            given = body if isinstance(body, dict) else {}
            return given.get("value"), given.get("@odata.nextLink")

        first = address(self._api + path, {**query, "$top": str(self._options.page_size)})
        return linked_pages(fetch, first, "/v1.0/", what)

    async def _token(self) -> AccessToken:
        form = {
            "grant_type": "client_credentials",
            "client_id": self._options.client_id,
            "scope": self._scope,
            **await self._authentication(),
        }
        return await self._client.token(self._token_url, form)

    async def _authentication(self) -> Mapping[str, str]:
        """Return parameters that authenticate the application. Raises RequestFault."""
        options, file = self._options, self._credential
        if options.client_secret_file is not None:
            return {"client_secret": await secret_in(file, "client_secret_file")}
        if options.federated_token_file is not None:
            return bearer_form(await secret_in(file, "federated_token_file"))
        return await assertion_form(
            file, "certificate_file", parse_certificate, options.client_id, str(self._token_url)
        )


def _literal(text: str) -> str:
    """Return a text as a literal of OData, in which quotes are doubled."""
    return "'" + text.replace("'", "''") + "'"
