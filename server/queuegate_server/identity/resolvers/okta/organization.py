"""Lookups in an organization of Okta, as the reference of its management API describes them."""

import functools
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from yarl import URL

from queuegate_server.identity.long_work import in_steps
from queuegate_server.identity.members import SEVERAL_GROUPS, MemberListing
from queuegate_server.identity.resolver import ChangeSink, KnownUser, Outcome
from queuegate_server.identity.resolvers.okta.options import OktaOptions
from queuegate_server.identity.resolvers.okta.system_log import LogAnswer, SystemLog
from queuegate_server.identity.rest.answers import server_time, text_field
from queuegate_server.identity.rest.assertion import assertion_form, parse_private_key
from queuegate_server.identity.rest.client import RestClient
from queuegate_server.identity.rest.faults import NotFound, UnusableData
from queuegate_server.identity.rest.following import follow
from queuegate_server.identity.rest.names import (
    ABSENT,
    DISABLED,
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
from queuegate_server.identity.rest.options import version_of
from queuegate_server.identity.rest.paging import linked_pages
from queuegate_server.identity.rest.resolver import Provider
from queuegate_server.identity.rest.tokens import AccessToken, Credentials, FileToken, TokenCache
from queuegate_server.identity.unique_names import UniqueNames

_SCOPES: Final = "okta.users.read okta.groups.read"
_LOG_SCOPE: Final = "okta.logs.read"
_LOG_RIGHT: Final = "a role that may read the System Log, such as Report Administrator"
_LOGIN: Final = "login"
_ABSENT_CODE: Final = "E0000007"
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^,<]*\brel="?next"?(?:\s*[;,]|\s*$)')
"""The next page in a header Link (RFC 8288)."""
_ENABLED: Final = frozenset({"ACTIVE", "RECOVERY", "PASSWORD_EXPIRED", "LOCKED_OUT"})
"""States of accounts that can be used. Anybody can lock an account out with wrong passwords."""
_DISABLED: Final = frozenset({"STAGED", "PROVISIONED", "SUSPENDED", "DEPROVISIONED"})


class Organization(Provider):
    """The users and groups of an organization."""

    def __init__(
        self, options: OktaOptions, client: RestClient, clock: Callable[[], float]
    ) -> None:
        self._options = options
        self._client = client
        self._api = f"{options.url.rstrip('/')}/api/v1"
        self._below = URL(f"{self._api}/", encoded=True).raw_path
        self._clock = clock
        self.credentials = self._credentials(_SCOPES)
        # A token of its own, so that lookups do not need the right to read the log.
        self._log_credentials = self._credentials(_LOG_SCOPE)
        self.former_names = FormerNames(options)
        self._unique = UniqueNames(ambiguous_name, clock)
        self._user_field = options.user_attribute or _LOGIN

    def _credentials(self, scope: str) -> Credentials:
        options, pause = self._options, self._options.auth_retry_after
        if options.token_file is not None:
            return FileToken(options.token_file, "token_file", "SSWS", pause, self._clock)
        assert options.client_id is not None  # noqa: S101 - checked by the settings
        assert options.private_key_file is not None  # noqa: S101
        client, file = options.client_id, options.private_key_file
        url = URL(f"{options.url.rstrip('/')}/oauth2/v1/token", encoded=True)
        parse = functools.partial(parse_private_key, key_id=options.key_id)

        async def token() -> AccessToken:
            form = {
                "grant_type": "client_credentials",
                "scope": scope,
                **await assertion_form(file, "private_key_file", parse, client, str(url)),
            }
            return await self._client.token(url, form)

        return TokenCache(token, lambda: version_of(file), pause, self._clock)

    async def close(self) -> None:
        """Cancel requests for tokens."""
        await super().close()
        await self._log_credentials.close()

    async def look_up(self, name: str) -> Outcome:
        """Look up a user by the provider's name."""
        try:
            user = await self._user(name)
            if user is None:
                return ABSENT
            if not self._has_name(user, name):
                return other_spelling(_profile_field(user, self._user_field, "user"), name)
            status = user.get("status")
            if status in _DISABLED:
                return DISABLED
            if status not in _ENABLED:
                raise UnusableData("user: the state of the account is unknown")
            key = text_field(user, "id", "user")
            self.former_names.note(key, name)
            return KnownUser(await self._groups_of(key))
        except NotFound as fault:
            if fault.code != _ABSENT_CODE:
                raise
            return ABSENT

    async def members(self, listing: MemberListing) -> None:
        """List group members."""
        for name in listing.pending:
            found = [each async for each in self._named(name, listing)]
            if len(found) > 1:
                listing.done(name, SEVERAL_GROUPS)
                continue
            for group in found:
                key = segment(text_field(group, "id", "group"))
                async for page in self._pages("members", f"/groups/{key}/users", {}, listing):
                    async for user in in_steps(self.listed(page)):
                        listing.add(name, user)
            listing.done(name)

    def user_pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Return all users, page by page."""
        return self._pages("users", "/users", {})

    async def follow(self, sink: ChangeSink) -> None:
        """Follow the organization's changes until cancelled. Raises CannotFollow."""
        options = self._options
        await follow(
            SystemLog(self._api, options.page_size, self._events),
            sink,
            self._names_of_user,
            self.former_names,
            interval=options.changes_interval,
            repeat_after=options.changes_interval,
            is_vague=options.user_match == "casefold",
        )

    async def _events(self, url: URL) -> LogAnswer:
        # Okta limits requests for events on their own. Other clients of the System Log may use
        # this limit up, which must not stop lookups.
        body, headers = await self._client.get(
            "events", url, self._log_credentials, right=_LOG_RIGHT, quota="events"
        )
        return LogAnswer(body, _next_link(headers), server_time(headers))

    async def _names_of_user(self, key: str) -> Collection[str]:
        """Return the names of a user, enabled or not, by the id. Raises NotFound, RequestFault."""
        body, _ = await self._get("user", URL(f"{self._api}/users/{segment(key)}", encoded=True))
        return self._names_in(body if isinstance(body, dict) else {})

    async def _user(self, name: str) -> Mapping[str, Any] | None:
        # Okta does not accept slashes and question marks in a path, even if encoded.
        if self._user_field != _LOGIN or "/" in name or "?" in name:
            return await self._user_with(name)
        body, _ = await self._get("user", URL(f"{self._api}/users/{segment(name)}", encoded=True))
        return body if isinstance(body, dict) else {}

    async def _user_with(self, name: str) -> Mapping[str, Any] | None:
        """Search for a user; return one with another spelling if there is no other."""
        query = {"search": f"profile.{self._user_field} eq {_literal(name)}"}
        same, other = None, None
        async for page in self._pages("user", "/users", query):
            for user in page:
                if not self._has_name(user, name):
                    other = user
                elif same is not None:
                    raise UnusableData(
                        f"several users have this {self._user_field}",
                        "make it unique in the organization, also among deactivated users",
                    )
                else:
                    same = user
        return same or other

    def _has_name(self, user: Mapping[str, Any], name: str) -> bool:
        return is_same(_profile_field(user, self._user_field, "user"), name, self._options)

    async def _groups_of(self, user: str) -> tuple[str, ...]:
        names: dict[str, str] = {}
        url = URL(f"{self._api}/users/{segment(user)}/groups", encoded=True)
        async for page in linked_pages(self._fetch("groups"), url, self._below, "groups"):
            async for group in in_steps(page):
                name = self._name_of(group)
                if name is not None:
                    names[text_field(group, "id", "groups")] = name
            if len(names) > self._options.max_groups:
                raise too_many_groups(self._options)
        if self._options.group_name == "name":
            await self._unique.check(
                ((spelled([name], self._options)[0], key) for key, name in names.items()),
                self._ids_of,
            )
        return spelled(names.values(), self._options)

    def _name_of(self, group: Mapping[str, Any]) -> str | None:
        """Return a group's name; None if it does not count. Raises RequestFault."""
        kind = text_field(group, "type", "groups")
        if self._options.groups == "okta" and kind == "APP_GROUP":
            return None
        if self._options.group_name == "id":
            return text_field(group, "id", "groups")
        return _profile_field(group, "name", "groups")

    async def _named(self, name: str, listing: MemberListing) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the groups that a name stands for."""
        if self._options.group_name == "name":
            async for group in self._search([name], listing):
                if self._is(group, name):
                    yield group
        elif name.isascii() and name.isalnum():
            listing.count_search()
            url = URL(f"{self._api}/groups/{segment(name)}", encoded=True)
            try:
                body, _ = await self._get("group", url)
            except NotFound as fault:
                if fault.code != _ABSENT_CODE:
                    raise
                return
            if self._is(body if isinstance(body, dict) else {}, name):
                yield body

    def _is(self, group: Mapping[str, Any], name: str) -> bool:
        own = self._name_of(group)
        return own is not None and spelled([own], self._options) == (name,)

    async def _ids_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the ids of all groups that count and have any of the given names.

        Others cannot grant anything.
        """
        ids: dict[str, list[str]] = {}
        async for group in self._search(names):
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
            query = {"search": " or ".join(f"profile.name eq {_literal(name)}" for name in batch)}
            async for page in self._pages("group names", "/groups", query, listing):
                for group in page:
                    yield group

    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, except users whom they cannot know."""
        for user in users:
            if user.get("status") in _ENABLED:
                yield from self._names_in(user)

    def _names_in(self, user: Mapping[str, Any]) -> Collection[str]:
        """Return the name by which callers know a user, if they can."""
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
    ) -> AsyncIterator[list[dict[str, Any]]]:
        first = address(self._api + path, {**query, "limit": str(self._options.page_size)})
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
    """Return a text as a literal of SCIM's filters (RFC 7644, 3.4.2.2), in which it is JSON."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
