"""The members of groups, and all users: what a resolver that can list them returns, and what that
may cost.

A resolver lists members if it has a method `members`, and users if it has a method `all_users`.
Lists may hold users who are not in a group, or do not exist, after all: each is looked up before it
is shown. They must not lack anybody without saying so.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

MAX_MEMBERS: Final = 100_000
"""Memberships, pairs of a group and a user, that are listed at once."""
MAX_SEARCHES: Final = 10_000
"""Requests to a directory that one list may take."""

MAX_USERS: Final = 200_000
"""Users who are listed at once."""

_NOT_REACHED: Final = "the groups before it took too long"


class ListingLimit(Exception):
    """A list of members has reached a bound; the text says which."""


class CannotListUsers(Exception):
    """Not all users can be listed; the text says why, for people."""


class GroupMembers:
    """The members of one group, as far as they are known."""

    __slots__ = ("missing", "users")

    def __init__(self) -> None:
        self.users: dict[str, tuple[str, ...]] = {}
        """By name: the groups between, from the one next to this group to the one that lists the
        user; empty for a direct member."""
        self.missing = _NOT_REACHED
        """Why some members may not be known, for people; empty if all are."""


class MemberListing:
    """Collects the members of groups within bounds.

    A group counts as incomplete until the resolver is done with it.
    """

    def __init__(
        self,
        groups: Iterable[str],
        *,
        max_members: int = MAX_MEMBERS,
        max_searches: int = MAX_SEARCHES,
    ) -> None:
        """Start without members.

        Args:
            groups: The names of the groups, as ACLs list them.
            max_members: How many memberships may be listed.
            max_searches: How many requests to a directory may be made.
        """
        self.groups: Mapping[str, GroupMembers] = {name: GroupMembers() for name in groups}
        self._max_members = max_members
        self._max_searches = max_searches
        self._members = 0
        self.searches = 0
        """The requests to a directory so far."""

    @property
    def pending(self) -> list[str]:
        """The groups that the resolver is not done with."""
        return [name for name, group in self.groups.items() if group.missing is _NOT_REACHED]

    @property
    def room(self) -> int:
        """How many more memberships may be listed."""
        return self._max_members - self._members

    def add(self, group: str, user: str, nested: tuple[str, ...] = ()) -> None:
        """Add a member, unless it is known by a shorter way. Raises ListingLimit.

        Args:
            group: The group.
            user: The name of the user.
            nested: As in GroupMembers.
        """
        users = self.groups[group].users
        known = users.get(user)
        if known is None:
            if self._members >= self._max_members:
                raise ListingLimit(f"the groups have more than {self._max_members} members")
            self._members += 1
        elif len(known) <= len(nested):
            return
        users[user] = nested

    def count_search(self) -> None:
        """Count a request to a directory. Raises ListingLimit."""
        if self.searches >= self._max_searches:
            raise ListingLimit(f"the members take more than {self._max_searches} searches")
        self.searches += 1

    def done(self, group: str, missing: str = "") -> None:
        """Note that all members of a group have been added, or why some may be missing."""
        self.groups[group].missing = missing

    def give_up(self, missing: str) -> None:
        """Note why the members of all pending groups may be missing."""
        for name in self.pending:
            self.done(name, missing)

    def beside(self) -> "MemberListing":
        """Return a listing of the same groups for another resolver, with the room that is left."""
        return MemberListing(
            self.groups,
            max_members=self.room,
            max_searches=self._max_searches - self.searches,
        )

    def merge(self, other: "MemberListing", source: str) -> None:
        """Add what another resolver has listed.

        Args:
            other: Its listing, made by `beside`.
            source: The name of the resolver, for people.
        """
        self.searches += other.searches
        for name, group in other.groups.items():
            for user, nested in group.users.items():
                self.add(name, user, nested)
            if group.missing:
                before = self.groups[name].missing
                known = "" if before is _NOT_REACHED else f"{before}; "
                self.done(name, f"{known}resolver {source!r}: {group.missing}")


class MemberSource(Protocol):
    """A resolver that can list the members of groups."""

    async def members(self, listing: MemberListing) -> None:
        """Add the members of the groups of a listing, and note each group that is done.

        Never blocks the event loop, and ends when cancelled. May raise ListingLimit and
        whatever else: the groups that are pending then are incomplete.
        """


class UserSource(Protocol):
    """A resolver that can list its users."""

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of all users, as requests may spell them.

        Never blocks the event loop, and ends when cancelled. Raises CannotListUsers if some may be
        missing, also because there are more than `limit`, and may raise whatever else.
        """
