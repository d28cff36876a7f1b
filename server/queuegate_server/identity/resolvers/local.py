"""Resolvers without an external source: `none`, `no_groups`, and `test` (YuniKorn's test users)."""

from collections.abc import Collection, Mapping
from typing import Final

from queuegate_server.identity.members import CannotListUsers, MemberListing
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome

_NO_GROUP_LIST: Final = LookupFailure("the test table has no group list for the user")
# Copied from YuniKorn's `pkg/common/security/usergroup_test_resolver.go`, in which groups with ids
# of 1000 and above have names, and group lookups fail for the last two users.
_TABLE: Final[Mapping[str, Outcome]] = {
    "testuser1": KnownUser(("group1000", "group1001")),
    "testuser2": KnownUser(("100", "group1001", "group1002")),
    "testuser3": KnownUser(("group1001", "group1002", "group1003", "group1004")),
    "testuser4": KnownUser(("901", "902")),
    "testuser5": _NO_GROUP_LIST,
    "invalid-gid-user": _NO_GROUP_LIST,
}


class _LocalResolver:
    Options = ResolverOptions
    is_local = True

    def __init__(self, _options: ResolverOptions) -> None:
        """Ignore the options."""

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


class NoResolver(_LocalResolver):
    """Resolves every user to one group of the same name, as YuniKorn does by default."""

    async def resolve(self, user: str) -> Outcome:
        """Return one group, named after the user."""
        return KnownUser((user,))

    async def members(self, listing: MemberListing) -> None:
        """List each group's only member, the user of the same name."""
        for name in listing.groups:
            listing.add(name, name)
            listing.done(name)

    async def all_users(self, _limit: int) -> Collection[str]:
        """Raise CannotListUsers."""
        raise CannotListUsers("every name counts as a user")


class NoGroupsResolver(_LocalResolver):
    """Resolves every user to no groups.

    The default for YARN, because Hadoop has no equivalent of `NoResolver`.
    """

    async def resolve(self, _user: str) -> Outcome:
        """Return no groups."""
        return KnownUser(())

    async def members(self, listing: MemberListing) -> None:
        """List no members, and mark every group's list as incomplete."""
        listing.give_up("no resolver looks up groups: name one in the settings")

    async def all_users(self, _limit: int) -> Collection[str]:
        """Raise CannotListUsers."""
        raise CannotListUsers("no resolver looks up users")


class StaticTableResolver(_LocalResolver):
    """Resolves the users in YuniKorn's table of test users."""

    async def resolve(self, user: str) -> Outcome:
        """Return the user's outcome from the table; NoSuchUser if the user is not in it."""
        return _TABLE.get(user, NoSuchUser("the user is not in the test table"))

    async def members(self, listing: MemberListing) -> None:
        """List the groups' members according to the table."""
        for user, outcome in _TABLE.items():
            for name in outcome.groups if isinstance(outcome, KnownUser) else ():
                if name in listing.groups:
                    listing.add(name, user)
        for name in listing.groups:
            listing.done(name)

    async def all_users(self, _limit: int) -> Collection[str]:
        """Return the users in the table who have groups."""
        return [user for user, outcome in _TABLE.items() if isinstance(outcome, KnownUser)]
