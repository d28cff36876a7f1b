"""Lookups in a Microsoft Entra ID tenant.

The requests are described in the Microsoft Graph 1.0 reference. A cast to groups needs the
ConsistencyLevel header and `$count`, and reads an index that follows changes with a delay.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import ChangeSink, NoSuchUser
from queuegate_server.identity.resolvers.entra.delta import DeltaQueries
from queuegate_server.identity.resolvers.entra.entra_options import EntraOptions
from queuegate_server.identity.rest.access_tokens import AccessToken, TokenCache
from queuegate_server.identity.rest.answers import server_time, text_field
from queuegate_server.identity.rest.assertion import (
    assertion_form,
    parse_certificate,
    signed_assertion_form,
)
from queuegate_server.identity.rest.change_queries import follow
from queuegate_server.identity.rest.faults import RequestFault, UnusableAnswer
from queuegate_server.identity.rest.paging import linked_pages
from queuegate_server.identity.rest.provider import GroupsWithIds, Pages
from queuegate_server.identity.rest.provider_names import (
    ABSENT,
    DISABLED,
    IMPOSSIBLE,
    WITHOUT_SUFFIX,
    address,
    is_same,
    listed_name,
    other_spelling,
    segment,
)
from queuegate_server.identity.rest.provider_options import secret_in, version_of
from queuegate_server.identity.rest.rest_client import RestClient

CHANGES_SECONDS: Final = 10.0
"""How often Microsoft Graph is asked for changes, with two requests each time, far below its
limits. Its own delay is longer than this."""
REPEAT_SECONDS: Final = 60.0
"""How long after a change it is applied again. A lookup shortly after the change may still get the
old groups, because Microsoft Graph's replicas take up to a minute to agree."""
PAGE_SIZE: Final = 999
"""The number of entries per page, the maximum that Microsoft Graph sends."""
_ABSENT_CODE: Final = "Request_ResourceNotFound"
_UPN: Final = re.compile(r"[!#$&'*+\-.0-9=A-Z^_`a-z{|}~]+@[0-9A-Za-z.\-]+")
"""The characters allowed in user principal names, including those of guests."""
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


class Tenant(GroupsWithIds):
    """The users and groups of a tenant."""

    def __init__(
        self, options: EntraOptions, client: RestClient, clock: Callable[[], float]
    ) -> None:
        super().__init__(
            options, clock, absent_code=_ABSENT_CODE, names_are_ids=options.group_name == "id"
        )
        self._options = options
        self._client = client
        login, graph = options.addresses
        self._token_url = URL(f"{login}/{options.tenant}/oauth2/v2.0/token", encoded=True)
        self._scope = f"{graph}/.default"
        self._api = f"{graph}/v1.0"
        self._user_field = _USER_FIELDS[options.user_name]
        self._group_field = _GROUP_FIELDS[options.group_name]
        (self._credential,) = options.credentials
        self.credentials = TokenCache(self._token, lambda: version_of(self._credential), clock)

    async def id_of(self, name: str) -> str | NoSuchUser:
        """Return the id of the user with a name, if the account is enabled."""
        if self._options.user_name == "upn" and not _UPN.fullmatch(name):
            return IMPOSSIBLE if "@" in name else WITHOUT_SUFFIX
        user = await self._user(name)
        if user is None:
            return ABSENT
        found = text_field(user, self._user_field, "user")
        if not is_same(found, name, self._options):
            return other_spelling(found, name)
        enabled = user.get("accountEnabled")
        if not isinstance(enabled, bool):
            raise RequestFault(
                "user: the application has no permission to see whether the account is enabled",
                "grant it the application permission User.Read.All",
            )
        return text_field(user, "id", "user") if enabled else DISABLED

    def members_of(self, group: str, listing: MemberListing) -> Pages:
        """Return the users in a group, including those of nested groups."""
        path = f"/groups/{group}/transitiveMembers/microsoft.graph.user"
        return self._pages("members", path, _USER_QUERY | {"$count": "true"}, listing)

    def user_pages(self) -> Pages:
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
            interval=CHANGES_SECONDS,
            repeat_after=REPEAT_SECONDS,
            is_vague=options.user_match == "casefold",
        )

    async def _changes(self, url: URL) -> tuple[Any, float]:
        headers = {"Prefer": "return=minimal"}
        body, given = await self._client.get("changes", url, self.credentials, headers)
        return body, server_time(given)

    async def _names_of_user(self, key: str) -> Collection[str]:
        """Return the names of a user, enabled or not, given the id. Raises NotFound,
        RequestFault.
        """
        user = await self._get("user", address(f"{self._api}/users/{segment(key)}", _USER_QUERY))
        found = user.get(self._user_field) if isinstance(user, dict) else None
        name = listed_name(found, self._options) if isinstance(found, str) else None
        return () if name is None else (name,)

    async def _user(self, name: str) -> Mapping[str, Any] | None:
        """Return a user's object; None if no user has the sam_account_name. Raises NotFound."""
        if self._options.user_name == "sam_account_name":
            query = _USER_QUERY | {"$filter": f"{self._user_field} eq {_literal(name)}"}
            found: list[dict[str, Any]] = []
            async for page in self._pages("user", "/users", query | {"$count": "true"}):
                found += page
            if len(found) > 1:
                raise UnusableAnswer(
                    f"several users have this {self._user_field}", "set user_name: upn"
                )
            return found[0] if found else None
        key = f"/{segment(name)}"
        if name.startswith("$"):  # otherwise, the API reads a request of another kind
            key = f"({segment(_literal(name))})"
        body = await self._get("user", address(f"{self._api}/users{key}", _USER_QUERY))
        return body if isinstance(body, dict) else {}

    def groups_of(self, user: str) -> Pages:
        """Return the groups of a user, including the groups that contain these groups."""
        path = f"/users/{user}/transitiveMemberOf/microsoft.graph.group"
        return self._pages("groups", path, {"$select": _SELECT_GROUP, "$count": "true"})

    def name_of(self, group: Mapping[str, Any]) -> str | None:
        """Return a group's name; None if the group is ignored. Raises RequestFault."""
        is_security = group.get("securityEnabled")
        # Without permission, Microsoft Graph returns groups without their properties.
        if not isinstance(is_security, bool):
            raise RequestFault(
                "groups: the application has no permission to see the properties of a group",
                "grant it the application permission GroupMember.Read.All",
            )
        if self._options.groups == "security" and not is_security:
            return None
        if self._options.groups == "synced" and group.get("onPremisesSyncEnabled") is not True:
            return None
        if self._options.group_name == "sam_account_name" and not group.get(self._group_field):
            return None  # not from an Active Directory
        return text_field(group, self._group_field, "groups")

    def is_readable(self, group: Mapping[str, Any]) -> bool:
        """Return whether the group's properties are shown."""
        return group.get("securityEnabled") is not None

    def is_id(self, name: str) -> bool:
        """Return whether a name may be the id of a group."""
        return _ID.fullmatch(name) is not None

    async def group(self, key: str) -> Any:
        """Return a group."""
        url = address(f"{self._api}/groups/{key}", {"$select": _SELECT_GROUP})
        return await self._get("group", url)

    def search(self, names: Collection[str], listing: MemberListing | None) -> Pages:
        """Return all groups with any of the given names, in any case."""
        literals = ",".join(map(_literal, names))
        query = {
            "$filter": f"{self._group_field} in ({literals})",
            "$select": _SELECT_GROUP,
            "$count": "true",
        }
        return self._pages("group names", "/groups", query, listing)

    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, omitting users without such a name."""
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
    ) -> Pages:
        """Return the pages of a list. The listing, if given, counts the requests."""
        headers = _EVENTUAL if "$count" in query else {}

        async def fetch(url: URL) -> tuple[Any, str | None]:
            if listing is not None:
                listing.count_search()
            body, _ = await self._client.get(what, url, self.credentials, headers)
            given = body if isinstance(body, dict) else {}
            return given.get("value"), given.get("@odata.nextLink")

        first = address(self._api + path, {**query, "$top": str(PAGE_SIZE)})
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
            return assertion_form(await secret_in(file, "federated_token_file"))
        return await signed_assertion_form(
            file, "certificate_file", parse_certificate, options.client_id, str(self._token_url)
        )


def _literal(text: str) -> str:
    """Return a string as an OData literal, in which quotes are doubled."""
    return "'" + text.replace("'", "''") + "'"
