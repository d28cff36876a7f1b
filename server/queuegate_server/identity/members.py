"""Bounded lists of group members, and of all users.

Resolvers that can list members implement `members` with the signature in `Listings`. If `members`
raises ListingLimit, all pending groups are marked as incomplete. Resolvers that can list users
implement `all_users`, which returns names, or a UserListing if the only missing users are those
whose data cannot be used; if any other users may be missing, it must raise CannotListUsers. Both
may raise other exceptions, must not block the event loop, and must stop when cancelled. Lists may
include users who are not in the group or do not exist, because each user is looked up before being
shown. A list from which members may be missing must be marked as incomplete.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_LOG = logging.getLogger(__name__)

MAX_MEMBERS: Final = 100_000
"""The maximum number of memberships (pairs of a group and a user) per listing."""
MAX_SEARCHES: Final = 10_000
"""The maximum number of directory requests per listing."""

MAX_USERS: Final = 200_000
"""The maximum number of users per listing."""
MAX_LISTINGS: Final = 2
"""The maximum number of concurrent listings per resolver. Low, because checks take priority."""
LISTING_SECONDS: Final = 15.0
"""The time limit for listing members, including the wait for other listings."""
USERS_SECONDS: Final = 300.0
"""The time limit for listing all users. Generous, because only command-line tools do this."""

SEVERAL_GROUPS: Final = "several groups have this name"
"""Why no members are listed for a name that must identify a single group."""
_NOT_REACHED: Final = "the preceding groups took too long"


class ListingLimit(Exception):
    """The listing reached a limit; the message says which one."""


class CannotListUsers(Exception):
    """The resolver cannot list all users; the message states the reason."""


@dataclass(slots=True, eq=False)
class GroupMembers:
    """The members of a group that have been listed so far."""

    users: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps users to the path of nested groups through which they belong, outermost first."""
    missing: str = _NOT_REACHED
    """A human-readable reason why members may be missing; empty if the list is complete."""


class UserListing(NamedTuple):
    """All users of a resolver."""

    names: Collection[str]
    missing: str = ""
    """A human-readable reason why users are missing; empty if the list is complete."""


class MemberListing:
    """A bounded listing of group members. Each group is incomplete until it is marked as done."""

    def __init__(
        self,
        groups: Iterable[str],
        *,
        max_members: int = MAX_MEMBERS,
        max_searches: int = MAX_SEARCHES,
    ) -> None:
        self.groups: Mapping[str, GroupMembers] = {name: GroupMembers() for name in groups}
        self._max_members = max_members
        self._max_searches = max_searches
        self._members = 0
        self.searches = 0
        """The number of directory requests so far."""

    @property
    def pending(self) -> list[str]:
        """The groups not yet marked as done."""
        return [name for name, group in self.groups.items() if group.missing is _NOT_REACHED]

    @property
    def room(self) -> int:
        """The number of memberships that may still be added."""
        return self._max_members - self._members

    def add(self, group: str, user: str, nested: tuple[str, ...] = ()) -> None:
        """Add a member, keeping the shortest path of nested groups. Raises ListingLimit."""
        users = self.groups[group].users
        path = users.get(user)
        if path is None:
            if self._members >= self._max_members:
                raise ListingLimit(f"the groups have more than {self._max_members} members")
            self._members += 1
        elif len(path) <= len(nested):
            return
        users[user] = nested

    def count_search(self) -> None:
        """Count a directory request. Raises ListingLimit."""
        if self.searches >= self._max_searches:
            raise ListingLimit(f"listing the members takes more than {self._max_searches} searches")
        self.searches += 1

    def done(self, group: str, missing: str = "") -> None:
        """Mark a group as done. If members may be missing, `missing` is the reason."""
        self.groups[group].missing = missing

    def give_up(self, missing: str) -> None:
        """Mark all pending groups as done but incomplete, for the reason `missing`."""
        for name in self.pending:
            self.done(name, missing)

    def fork(self) -> "MemberListing":
        """Return an empty listing of the same groups, with this listing's remaining limits."""
        return MemberListing(
            self.groups, max_members=self.room, max_searches=self._max_searches - self.searches
        )

    def merge(self, other: "MemberListing", source: str) -> None:
        """Add the results that resolver `source` recorded in a forked listing."""
        self.searches += other.searches
        for name, group in other.groups.items():
            for user, nested in group.users.items():
                self.add(name, user, nested)
            if group.missing:
                before = self.groups[name].missing
                prefix = "" if before is _NOT_REACHED else f"{before}; "
                self.done(name, f"{prefix}resolver {source!r}: {group.missing}")


class Listings:
    """Lists a resolver's group members and users within limits, if the resolver supports this."""

    def __init__(self, name: str, resolver: object) -> None:
        self._name = name
        self._members = getattr(resolver, "members", None)
        self.can_list_members: Final = self._members is not None
        self._all_users = getattr(resolver, "all_users", None)
        self._slots = asyncio.Semaphore(MAX_LISTINGS)

    async def members(self, listing: MemberListing) -> None:
        """List group members. Never raises; faults are recorded in the listing."""
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

    async def all_users(self, limit: int) -> UserListing:
        """Return all users. Raises CannotListUsers if there are more than `limit`."""
        if self._all_users is None:
            raise CannotListUsers(f"the resolver {self._name!r} cannot list its users")
        try:
            async with asyncio.timeout(USERS_SECONDS), self._slots:
                users: UserListing | Collection[str] = await self._all_users(limit)
        except CannotListUsers as error:
            raise CannotListUsers(f"resolver {self._name!r}: {error}") from None
        except TimeoutError:
            message = f"resolver {self._name!r}: timed out after {USERS_SECONDS:g} s"
            raise CannotListUsers(message) from None
        except Exception as error:
            _LOG.error("resolver %r cannot list users", self._name, exc_info=error)
            message = f"the resolver {self._name!r} failed: {type(error).__name__}"
            raise CannotListUsers(message) from error
        return users if isinstance(users, UserListing) else UserListing(users)
