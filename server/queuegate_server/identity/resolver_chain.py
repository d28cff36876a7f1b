"""Chains of resolvers. A partition uses a chain like a single resolver."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from queuegate_server.identity.guarded_resolver import GuardedResolver, ResolverLoad
from queuegate_server.identity.members import (
    CannotListUsers,
    ListingLimit,
    MemberListing,
    UserListing,
)
from queuegate_server.identity.options import ChainMode
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome


class ResolverChain:
    """A chain of guarded resolvers, queried in order.

    If a queried resolver fails, the lookup fails, because that resolver might know the user. If a
    queried resolver refuses the user, for example because the account is disabled, the outcome is
    that the user does not exist.

    Args:
        name: The chain's display name.
        members: The resolvers, in query order.
        mode: With `first`, the chain returns the groups from the first resolver that finds the
            user; with `union`, the groups from all resolvers.
    """

    def __init__(self, name: str, members: Sequence[GuardedResolver], mode: ChainMode) -> None:
        self.name = name
        self.is_local: bool = all(member.is_local for member in members)
        self._members = tuple(members)
        self._mode = mode
        # With `first`, only the first resolver's load counts, so that users whom it finds can be
        # refreshed even if the other resolvers are overloaded.
        always_queried = self._members if mode == "union" else self._members[:1]
        self.load = _ChainLoad([each.load for each in always_queried])

    async def resolve(self, user: str) -> Outcome:
        """Look up a user. Never raises."""
        users: list[KnownUser] = []
        absences: list[str] = []
        for member in self._members:
            outcome = await member.resolve(user)
            match outcome:
                case LookupFailure(detail):
                    return replace(outcome, detail=f"resolver {member.name!r}: {detail}")
                case NoSuchUser(detail, is_final=True):
                    return replace(outcome, detail=f"{member.name}: {detail}")
                case NoSuchUser(detail):
                    absences.append(f"{member.name}: {detail}")
                case KnownUser():
                    if self._mode == "first":
                        return outcome
                    users.append(outcome)
        if not users:
            return NoSuchUser("; ".join(absences))
        groups = chain.from_iterable(each.groups for each in users)
        return KnownUser(tuple(dict.fromkeys(groups)))

    async def members(self, listing: MemberListing) -> None:
        """List all members reported by any resolver. Never raises.

        The chain's mode is applied later, when each member is looked up.
        """
        try:
            for member in self._members:
                fork = listing.fork()
                await member.members(fork)
                listing.merge(fork, member.name)
        except ListingLimit as limit:
            for name in listing.groups:
                listing.done(name, str(limit))
        for name in listing.pending:
            listing.done(name)

    async def all_users(self, limit: int) -> UserListing:
        """Return the users of all resolvers. Raises CannotListUsers if there are over `limit`."""
        users: dict[str, None] = {}
        missing: list[str] = []
        for member in self._members:
            listing = await member.all_users(limit)
            users.update(dict.fromkeys(listing.names))
            if listing.missing:
                missing.append(f"resolver {member.name!r}: {listing.missing}")
        if len(users) > limit:
            raise CannotListUsers(f"there are more than {limit} users")
        return UserListing(users.keys(), "; ".join(missing))


GroupSource = GuardedResolver | ResolverChain
"""The source of a partition's groups. May be shared with other partitions."""


class _ChainLoad:
    """The combined load on the resolvers queried in every lookup."""

    def __init__(self, loads: Sequence[ResolverLoad]) -> None:
        self._loads = loads

    @property
    def capacity(self) -> int:
        return min(load.capacity for load in self._loads)

    @property
    def waiting(self) -> int:
        return sum(load.waiting for load in self._loads)

    def wait(self) -> float:
        return max(load.wait() for load in self._loads)

    def acquire(self) -> bool:
        if self.wait() > 0:
            return False
        for load in self._loads:
            load.charge()
        return True
