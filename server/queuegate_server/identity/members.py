"""The members of groups, and all users: what a resolver that can list them returns, and what that
may cost.

A resolver that can list members has the method `members` of `Listings`, and may raise ListingLimit:
the groups that are still pending are then incomplete. A resolver that can list users has the method
`all_users`, which raises CannotListUsers if some may be missing. Both may raise anything else,
never block the event loop, and end when cancelled. A list may contain users who turn out not to be
in the group, or not to exist: each is looked up before being shown. It must not omit anyone without
saying so.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

_LOG = logging.getLogger(__name__)

MAX_MEMBERS: Final = 100_000
"""The maximum number of memberships (pairs of a group and a user) listed at once."""
MAX_SEARCHES: Final = 10_000
"""The maximum number of requests to a directory for one list."""

MAX_USERS: Final = 200_000
"""The maximum number of users listed at once."""
MAX_LISTINGS: Final = 2
"""The maximum number of member lists that one resolver builds at once: checks need it more."""
LISTING_SECONDS: Final = 15.0
"""How long one list of members may take, including the wait for others."""
USERS_SECONDS: Final = 300.0
"""The same for a list of users, which only commands request."""

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
        """By name: the groups in between, from the one nearest to this group to the one that lists
        the user; empty for a direct member."""
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
        """List groups by name, within limits on memberships and requests to a directory."""
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
        """Add a member (`nested` as in GroupMembers), unless a shorter way is known.

        Raises ListingLimit.
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
            self.groups, max_members=self.room, max_searches=self._max_searches - self.searches
        )

    def merge(self, other: "MemberListing", source: str) -> None:
        """Add what the resolver `source` has added to a listing that `beside` has returned."""
        self.searches += other.searches
        for name, group in other.groups.items():
            for user, nested in group.users.items():
                self.add(name, user, nested)
            if group.missing:
                before = self.groups[name].missing
                known = "" if before is _NOT_REACHED else f"{before}; "
                self.done(name, f"{known}resolver {source!r}: {group.missing}")


class Listings:
    """Lists members and users, within limits, with a resolver that supports it."""

    def __init__(self, name: str, resolver: object) -> None:
        self._name = name
        self._members = getattr(resolver, "members", None)
        self._all_users = getattr(resolver, "all_users", None)
        self._slots = asyncio.Semaphore(MAX_LISTINGS)

    @property
    def can_list_members(self) -> bool:
        """Whether the resolver lists members at all."""
        return self._members is not None

    async def members(self, listing: MemberListing) -> None:
        """List the members of groups. Never raises; those that could not be listed say why."""
        if self._members is None:
            listing.give_up(f"the resolver {self._name!r} cannot list the members of groups")
            return
        try:
            async with asyncio.timeout(LISTING_SECONDS), self._slots:
                await self._members(listing)
        except ListingLimit as limit:
            listing.give_up(str(limit))
        except TimeoutError:
            listing.give_up(f"the members could not be listed within {LISTING_SECONDS:g} s")
        except Exception as error:
            _LOG.error("resolver %r cannot list members", self._name, exc_info=error)
            listing.give_up(f"the resolver failed: {type(error).__name__}")

    async def all_users(self, limit: int) -> Collection[str]:
        """Return the names of at most `limit` users. Raises CannotListUsers if there are more."""
        if self._all_users is None:
            raise CannotListUsers(f"the resolver {self._name!r} cannot list its users")
        try:
            async with asyncio.timeout(USERS_SECONDS), self._slots:
                users: Collection[str] = await self._all_users(limit)
        except CannotListUsers as error:
            raise CannotListUsers(f"resolver {self._name!r}: {error}") from None
        except TimeoutError:
            message = f"resolver {self._name!r}: timed out after {USERS_SECONDS:g} s"
            raise CannotListUsers(message) from None
        except Exception as error:
            _LOG.error("resolver %r cannot list users", self._name, exc_info=error)
            message = f"the resolver {self._name!r} failed: {type(error).__name__}"
            raise CannotListUsers(message) from error
        return users
