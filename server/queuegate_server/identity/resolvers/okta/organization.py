"""Lookups in an Okta organization, as described in the reference for its management API."""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.members import MemberListing
from queuegate_server.identity.resolver import ChangeSink, NoSuchUser
from queuegate_server.identity.resolvers.okta.okta_options import OktaOptions
from queuegate_server.identity.resolvers.okta.system_log import LogAnswer, SystemLog
from queuegate_server.identity.rest.access_tokens import (
    AccessToken,
    Credentials,
    FileToken,
    TokenCache,
)
from queuegate_server.identity.rest.answers import server_time, text_field
from queuegate_server.identity.rest.assertion import parse_private_key, signed_assertion_form
from queuegate_server.identity.rest.change_queries import follow
from queuegate_server.identity.rest.faults import UnusableAnswer
from queuegate_server.identity.rest.paging import linked_pages
from queuegate_server.identity.rest.provider import GroupsWithIds, Pages
from queuegate_server.identity.rest.provider_names import (
    ABSENT,
    DISABLED,
    address,
    is_same,
    listed_name,
    other_spelling,
    segment,
)
from queuegate_server.identity.rest.provider_options import version_of
from queuegate_server.identity.rest.rest_client import RestClient

CHANGES_SECONDS: Final = 10.0
"""How often Okta is asked for its System Log, and how long after a change the change is applied
again. Six requests a minute are a small part of what Okta allows for the log.
"""
PAGE_SIZE: Final = 200
"""The number of entries per page, the maximum that Okta recommends."""
_SCOPES: Final = "okta.users.read okta.groups.read"
_LOG_SCOPE: Final = "okta.logs.read"
_LOG_RIGHT: Final = "a role that may read the System Log, such as Report Administrator"
_LOGIN: Final = "login"
_ABSENT_CODE: Final = "E0000007"
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?(?:\s*[;,]|\s*$)')
"""The next page in a Link header (RFC 8288)."""
_ENABLED: Final = frozenset({"ACTIVE", "RECOVERY", "PASSWORD_EXPIRED", "LOCKED_OUT"})
"""States of accounts that can be used. Anyone can lock an account with wrong passwords."""
_DISABLED: Final = frozenset({"STAGED", "PROVISIONED", "SUSPENDED", "DEPROVISIONED"})


class Organization(GroupsWithIds):
    """The users and groups of an organization."""

    def __init__(
        self, options: OktaOptions, client: RestClient, clock: Callable[[], float]
    ) -> None:
        super().__init__(
            options, clock, absent_code=_ABSENT_CODE, names_are_ids=options.group_name == "id"
        )
        self._options = options
        self._client = client
        self._api = f"{options.url.rstrip('/')}/api/v1"
        self._below = URL(f"{self._api}/", encoded=True).raw_path
        self._clock = clock
        self.credentials = self._credentials(_SCOPES)
        # Use a separate token, so that lookups do not need the right to read the log.
        self._log_credentials = self._credentials(_LOG_SCOPE)
        self._user_field = options.user_attribute or _LOGIN

    def _credentials(self, scope: str) -> Credentials:
        """Return the credentials in the settings: the API token, or tokens requested with the
        private key.
        """
        options = self._options
        if options.token_file is not None:
            return FileToken(options.token_file, "token_file", "SSWS", self._clock)
        assert options.client_id is not None  # noqa: S101 - checked by the settings
        assert options.private_key_file is not None  # noqa: S101
        client, file = options.client_id, options.private_key_file
        url = URL(f"{options.url.rstrip('/')}/oauth2/v1/token", encoded=True)
        parse = functools.partial(parse_private_key, key_id=options.key_id)

        async def token() -> AccessToken:
            form = {
                "grant_type": "client_credentials",
                "scope": scope,
                **await signed_assertion_form(file, "private_key_file", parse, client, str(url)),
            }
            return await self._client.token(url, form)

        return TokenCache(token, lambda: version_of(file), self._clock)

    async def close(self) -> None:
        """Cancel token requests."""
        await super().close()
        await self._log_credentials.close()

    async def id_of(self, name: str) -> str | NoSuchUser:
        """Return the id of the user with a name, if the account can be used."""
        user = await self._user(name)
        if user is None:
            return ABSENT
        if not self._has_login(user, name):
            return other_spelling(_profile_field(user, self._user_field, "user"), name)
        status = user.get("status")
        if status in _DISABLED:
            return DISABLED
        if status not in _ENABLED:
            raise UnusableAnswer("user: the state of the account is unknown")
        return text_field(user, "id", "user")

    def members_of(self, group: str, listing: MemberListing) -> Pages:
        """Return the users in a group."""
        return self._pages("members", f"/groups/{group}/users", {}, listing)

    def user_pages(self) -> Pages:
        """Return all users, page by page."""
        return self._pages("users", "/users", {})

    async def follow(self, sink: ChangeSink) -> None:
        """Follow the organization's changes until cancelled. Raises CannotFollow."""
        options = self._options
        await follow(
            SystemLog(self._api, PAGE_SIZE, self._events),
            sink,
            self._names_of_user,
            self.former_names,
            interval=CHANGES_SECONDS,
            repeat_after=CHANGES_SECONDS,
            is_vague=options.user_match == "casefold",
        )

    async def _events(self, url: URL) -> LogAnswer:
        # Okta limits requests for events separately. Other clients of the System Log may use up
        # this limit, which must not stop lookups.
        body, headers = await self._client.get(
            "events", url, self._log_credentials, right=_LOG_RIGHT, quota="events"
        )
        return LogAnswer(body, _next_link(headers), server_time(headers))

    async def _names_of_user(self, key: str) -> Collection[str]:
        """Return the names of a user, enabled or not, given the id. Raises NotFound,
        RequestFault.
        """
        body, _ = await self._get("user", URL(f"{self._api}/users/{segment(key)}", encoded=True))
        return self._names_in(body if isinstance(body, dict) else {})

    async def _user(self, name: str) -> Mapping[str, Any] | None:
        # Okta does not accept slashes and question marks in a path, even if encoded.
        if self._user_field != _LOGIN or "/" in name or "?" in name:
            return await self._user_with(name)
        body, _ = await self._get("user", URL(f"{self._api}/users/{segment(name)}", encoded=True))
        return body if isinstance(body, dict) else {}

    async def _user_with(self, name: str) -> Mapping[str, Any] | None:
        """Search for a user; return one whose name is spelled differently only if no other is
        found.
        """
        query = {"search": f"profile.{self._user_field} eq {_literal(name)}"}
        same, other = None, None
        async for page in self._pages("user", "/users", query):
            for user in page:
                if not self._has_login(user, name):
                    other = user
                elif same is not None:
                    raise UnusableAnswer(
                        f"several users have this {self._user_field}",
                        "make it unique in the organization, also among deactivated users",
                    )
                else:
                    same = user
        return same or other

    def _has_login(self, user: Mapping[str, Any], name: str) -> bool:
        return is_same(_profile_field(user, self._user_field, "user"), name, self._options)

    def groups_of(self, user: str) -> Pages:
        """Return the groups of a user."""
        url = URL(f"{self._api}/users/{user}/groups", encoded=True)
        return linked_pages(self._fetch("groups"), url, self._below, "groups")

    def name_of(self, group: Mapping[str, Any]) -> str | None:
        """Return a group's name; None if the group is ignored. Raises RequestFault."""
        kind = text_field(group, "type", "groups")
        if self._options.groups == "okta" and kind == "APP_GROUP":
            return None
        if self._options.group_name == "id":
            return text_field(group, "id", "groups")
        return _profile_field(group, "name", "groups")

    def is_id(self, name: str) -> bool:
        """Return whether a name may be the id of a group."""
        return name.isascii() and name.isalnum()

    async def group(self, key: str) -> Any:
        """Return a group."""
        body, _ = await self._get("group", URL(f"{self._api}/groups/{key}", encoded=True))
        return body

    def search(self, names: Collection[str], listing: MemberListing | None) -> Pages:
        """Return all groups with any of the given names, in any case."""
        query = {"search": " or ".join(f"profile.name eq {_literal(name)}" for name in names)}
        return self._pages("group names", "/groups", query, listing)

    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, omitting users without such a name."""
        for user in users:
            if user.get("status") in _ENABLED:
                yield from self._names_in(user)

    def _names_in(self, user: Mapping[str, Any]) -> Collection[str]:
        """Return the name by which callers know a user, if there is one."""
        if self._user_field != _LOGIN and _is_unset(user, self._user_field):
            return ()
        name = listed_name(_profile_field(user, self._user_field, "user"), self._options)
        return () if name is None else (name,)

    async def _get(self, what: str, url: URL) -> tuple[Any, Mapping[str, str]]:
        return await self._client.get(what, url, self.credentials)

    def _fetch(self, what: str, listing: MemberListing | None = None) -> Callable[[URL], Any]:
        async def fetch(url: URL) -> tuple[Any, str | None]:
            if listing is not None:
                listing.count_search()
            body, headers = await self._get(what, url)
            return body, _next_link(headers)

        return fetch

    def _pages(
        self,
        what: str,
        path: str,
        query: Mapping[str, str],
        listing: MemberListing | None = None,
    ) -> Pages:
        first = address(self._api + path, {**query, "limit": str(PAGE_SIZE)})
        return linked_pages(self._fetch(what, listing), first, self._below, what)


def _next_link(headers: Mapping[str, str]) -> str | None:
    found = _NEXT.search(headers.get("link", ""))
    return found[1] if found else None


def _profile_field(item: Mapping[str, Any], key: str, what: str) -> str:
    return text_field(item.get("profile"), key, what)


def _is_unset(user: Mapping[str, Any], key: str) -> bool:
    profile = user.get("profile")
    return isinstance(profile, dict) and not profile.get(key)


def _literal(text: str) -> str:
    """Return a string as a literal in a SCIM filter (RFC 7644, 3.4.2.2), which is JSON."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
