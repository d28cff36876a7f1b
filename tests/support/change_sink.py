"""A sink for the changes that a resolver reports."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Protocol

import pytest

from queuegate_server.identity.resolver import CannotFollow, Following

ALL = "all"


class FollowingResolver(Protocol):
    """A resolver that can follow its source."""

    @property
    def changes(self) -> Following | None: ...


class Sink:
    """What a resolver has reported."""

    def __init__(self, position: bytes | None = None) -> None:
        self.position = position
        self.reports: list[set[str] | str] = []
        self.count = 0
        self.changed = asyncio.Event()
        self.ended: BaseException | None = None

    def end(self, task: asyncio.Task[None]) -> None:
        self.ended = None if task.cancelled() else task.exception()
        self.changed.set()

    async def change(self) -> None:
        """Wait for the next report. Raises what ended the follower."""
        self.changed.clear()
        await self.changed.wait()
        if self.ended is not None:
            raise self.ended

    def invalidate(self, users: Collection[str]) -> None:
        self.reports.append(set(users))
        self.changed.set()

    def invalidate_all(self) -> None:
        self.reports.append(ALL)
        self.changed.set()

    def reached(self, position: bytes | None = None) -> None:
        self.position = position or self.position
        self.count += 1
        self.changed.set()

    async def until_reached(self) -> None:
        before = self.count
        while self.count == before:
            await self.change()

    async def until(self, *names: str) -> None:
        """Wait until these users have been reported, and nobody else."""
        while self.names() != set(names):
            await self.change()
        assert ALL not in self.reports
        self.reports.clear()

    def names(self) -> set[str]:
        return {name for users in self.reports if users != ALL for name in users}

    async def until_all(self) -> None:
        while ALL not in self.reports:
            await self.change()
        self.reports.clear()


@contextlib.asynccontextmanager
async def following(resolver: FollowingResolver, sink: Sink) -> AsyncIterator[asyncio.Task[None]]:
    """Follow the changes, from once the source has been read."""
    assert resolver.changes is not None
    task = asyncio.ensure_future(resolver.changes(sink))
    try:
        async with asyncio.timeout(60):
            reached = asyncio.ensure_future(sink.until_reached())
            await asyncio.wait({task, reached}, return_when=asyncio.FIRST_COMPLETED)
            reached.cancel()
            task.add_done_callback(sink.end)
            yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def why_not_followed(resolver: FollowingResolver) -> str:
    """Return why a resolver cannot follow its source, of which it has reported nothing."""
    assert resolver.changes is not None
    sink = Sink()
    async with asyncio.timeout(60):
        with pytest.raises(CannotFollow) as raised:
            await resolver.changes(sink)
    assert (sink.count, sink.reports) == (0, [])
    return str(raised.value)
