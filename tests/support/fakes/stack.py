"""A directory with a partition in front of it, on a manual clock."""

import asyncio
from collections.abc import Callable, Collection

from queuegate_server.fleet.replica_log import ReplicaLease
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, Resolution
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import KnownUser, LookupFailure, NoSuchUser, Outcome
from queuegate_server.identity.shared import SharedGroups
from tests.support.fakes.clock import ManualClock
from tests.support.fakes.directory import FakeDirectory
from tests.support.fakes.loop import run_ready_callbacks


class Stack:
    """A directory with a partition in front of it."""

    def __init__(
        self,
        clock: ManualClock,
        directory: FakeDirectory | None = None,
        share: Callable[[ReplicaLease], SharedGroups] | None = None,
        **more: int,
    ) -> None:
        self.clock = clock
        self.directory = directory or FakeDirectory(sue=("g1",), bob=("g2",))
        options = ResolverOptions(**more)
        self.guarded = GuardedResolver("corp", self.directory, options, clock=clock)
        self.guarded.breaker.max_failures, self.guarded.breaker.pause = 3, 10
        self.lease = ReplicaLease()
        cache = GroupCache(CacheOptions(), clock, clock, lambda: 0.0, lease=self.lease)
        shared = share and share(self.lease)
        self.groups = GroupResolver(self.guarded, cache, shared=shared)
        self.lease.on_end(self.groups.end_lease)

    def asked(self, user: str = "sue") -> int:
        return self.directory.asked[user]

    def cached(self, user: str = "sue") -> Outcome | None:
        entry = self.groups.known(user)
        return None if entry is None else entry.outcome

    async def resolve(self, user: str = "sue", *, bypass_cache: bool = False) -> tuple[str, bool]:
        """Return the outcome, and whether it was cached."""
        answer = await self.groups.resolve(user, bypass_cache=bypass_cache)
        return describe(answer), answer.cached

    async def invalidate(self, users: Collection[str]) -> int:
        """Invalidate users, or all if none are named, and return how many were cached."""
        if users:
            return self.groups.invalidate(users)
        return await self.groups.invalidate_all()

    async def held(self, user: str = "sue", **how: bool) -> asyncio.Task[Resolution]:
        """Return a lookup that the directory keeps waiting."""
        self.directory.hold.clear()
        task = asyncio.create_task(self.groups.resolve(user, **how))
        await run_ready_callbacks()
        assert not task.done()
        return task


def describe(answer: Resolution) -> str:
    match answer.entry.outcome:
        case KnownUser(groups):
            return f"{'stale ' if answer.stale else ''}{' '.join(groups)}"
        case NoSuchUser():
            return "no such user"
        case LookupFailure(detail):
            return detail
