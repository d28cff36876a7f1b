"""The interface of providers, and the code that Entra and Okta share.

Keycloak names groups by their paths, and has groups within groups; see
`resolvers/keycloak/realm.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from queuegate_server.identity.members import SEVERAL_GROUPS, CannotListUsers, MemberListing
from queuegate_server.identity.resolver import ChangeSink, KnownUser, NoSuchUser, Outcome
from queuegate_server.identity.rest.access_tokens import Credentials
from queuegate_server.identity.rest.answers import text_field
from queuegate_server.identity.rest.faults import NotFound
from queuegate_server.identity.rest.provider_names import (
    ABSENT,
    FormerNames,
    ambiguous_name,
    batches,
    segment,
    spelled,
    too_many_groups,
)
from queuegate_server.identity.rest.provider_options import RestOptions
from queuegate_server.identity.unique_names import UniqueNames
from queuegate_server.runtime.pacing import in_steps

Pages = AsyncIterator[list[dict[str, Any]]]
"""The pages of a list of JSON objects."""


class Provider(ABC):
    """The requests of one kind of provider. Every method raises RequestFault for every fault."""

    credentials: Credentials
    former_names: FormerNames

    @abstractmethod
    async def look_up(self, name: str) -> Outcome:
        """Look up a user by the provider's name."""

    @abstractmethod
    async def members(self, listing: MemberListing) -> None:
        """List group members. May raise ListingLimit."""

    @abstractmethod
    def user_pages(self) -> AsyncIterator[list[dict[str, Any]]]:
        """Return all users, page by page."""

    @abstractmethod
    def listed(self, users: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Return the names by which callers know users, omitting users without such a name."""

    @abstractmethod
    async def follow(self, sink: ChangeSink) -> None:
        """Follow the provider's changes until cancelled. Raises CannotFollow."""

    async def notes(self, name: str) -> Collection[str]:  # noqa: ARG002 - for those that have notes
        """Return what an administrator should know about a user who has just been looked up."""
        return ()

    async def users(self, limit: int) -> Collection[str]:
        """Return all users, as callers know them. Raises CannotListUsers if over `limit`."""
        names: dict[str, None] = {}
        seen = 0
        async for page in self.user_pages():
            seen += len(page)
            if seen > limit:
                raise CannotListUsers(f"the provider has more than {limit} users")
            names.update(dict.fromkeys(self.listed(page)))
        return names.keys()

    async def close(self) -> None:
        """Cancel token requests."""
        await self.credentials.close()


class GroupsWithIds(Provider):
    """A provider whose groups have ids, and names that need not be unique.

    Args:
        options: The settings.
        clock: A monotonic clock, in seconds.
        absent_code: The API's code for an object that does not exist.
        names_are_ids: Whether ACLs name groups by their ids.
    """

    def __init__(
        self,
        options: RestOptions,
        clock: Callable[[], float],
        *,
        absent_code: str,
        names_are_ids: bool,
    ) -> None:
        self._rest_options = options
        self._absent_code = absent_code
        self._names_are_ids = names_are_ids
        self.former_names = FormerNames(options)
        self._unique = UniqueNames(ambiguous_name, clock)

    @abstractmethod
    async def id_of(self, name: str) -> str | NoSuchUser:
        """Return the id of the user with a name, if the account may be used."""

    @abstractmethod
    def groups_of(self, user: str) -> Pages:
        """Return the groups of a user, given the id as a segment of an address."""

    @abstractmethod
    def name_of(self, group: Mapping[str, Any]) -> str | None:
        """Return a group's name; None if the group is ignored."""

    @abstractmethod
    async def group(self, key: str) -> Any:
        """Return a group, given the id as a segment of an address."""

    @abstractmethod
    def search(self, names: Collection[str], listing: MemberListing | None) -> Pages:
        """Return all groups with any of the given names, in any case.

        Args:
            names: The names, as many as fit into one search.
            listing: Counts the search, if given.
        """

    @abstractmethod
    def members_of(self, group: str, listing: MemberListing) -> Pages:
        """Return the users in a group, given the id as a segment of an address."""

    @abstractmethod
    def is_id(self, name: str) -> bool:
        """Return whether a name may be the id of a group."""

    def is_readable(self, group: Mapping[str, Any]) -> bool:  # noqa: ARG002 - for those that hide groups
        """Return whether a group is shown with the properties that `name_of` needs. Lookups of the
        members of other groups fail.
        """
        return True

    async def look_up(self, name: str) -> Outcome:
        """Look up a user by the provider's name."""
        try:
            key = await self.id_of(name)
            if isinstance(key, NoSuchUser):
                return key
            self.former_names.note(key, name)
            return KnownUser(await self._names_of_groups(segment(key)))
        except NotFound as fault:
            if fault.reason != self._absent_code:
                raise
            return ABSENT

    async def members(self, listing: MemberListing) -> None:
        """List group members."""
        for name in listing.pending:
            found = [each async for each in self._groups_named(name, listing)]
            if len(found) > 1:
                listing.done(name, SEVERAL_GROUPS)
                continue
            for group in found:
                key = segment(text_field(group, "id", "group"))
                async for page in self.members_of(key, listing):
                    async for user in in_steps(self.listed(page)):
                        listing.add(name, user)
            listing.done(name)

    async def _names_of_groups(self, user: str) -> tuple[str, ...]:
        """Return the names of a user's groups. Raises RequestFault if several groups share one."""
        options = self._rest_options
        names: dict[str, str] = {}
        async for page in self.groups_of(user):
            async for group in in_steps(page):
                name = self.name_of(group)
                if name is not None:
                    names[text_field(group, "id", "groups")] = name
            if len(names) > options.max_groups:
                raise too_many_groups(options)
        if not self._names_are_ids:
            await self._unique.check(
                ((spelled([name], options)[0], key) for key, name in names.items()), self._ids_of
            )
        return spelled(names.values(), options)

    async def _groups_named(
        self, name: str, listing: MemberListing
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the groups that a name identifies."""
        if not self._names_are_ids:
            async for group in self._search([name], listing):
                if self._has_name(group, name):
                    yield group
        elif self.is_id(name):
            listing.count_search()
            try:
                group = await self.group(segment(name))
            except NotFound as fault:
                if fault.reason != self._absent_code:
                    raise
                return
            if self._has_name(group, name):
                yield group

    async def _ids_of(self, names: Collection[str]) -> Mapping[str, Collection[str]]:
        """Return the ids of all groups that count and have any of the given names.

        Other groups cannot grant anything. Names that differ only in case are different, unless the
        settings ignore case.
        """
        ids: dict[str, list[str]] = {}
        async for group in self._search(names):
            if self.is_readable(group) and (own := self.name_of(group)) is not None:
                key = text_field(group, "id", "group names")
                ids.setdefault(spelled([own], self._rest_options)[0], []).append(key)
        return ids

    async def _search(
        self, names: Collection[str], listing: MemberListing | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        for batch in batches(names):
            async for page in self.search(batch, listing):
                for group in page:
                    yield group

    def _has_name(self, group: Any, name: str) -> bool:
        own = self.name_of(group if isinstance(group, dict) else {})
        return own is not None and spelled([own], self._rest_options) == (name,)
