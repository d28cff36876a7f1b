"""Entries of the stream that no replica has written, at a replica that reads them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from queuegate_server.fleet.events import Event, MalformedEntry
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.steps import NewestEvents
from tests.support.fakes.loop import wait_until
from tests.unit.fleet.test_joining import Parts, at

STRAY = MalformedEntry((9, 0), "cannot be read")
OTHER = LogPosition(b"o" * 16, 0, b"")


def stray(parts: Parts, head: LogPosition, sent_at: float) -> MalformedEntry | None:
    return parts.session._pop_stray_entry(NewestEvents(head, sent_at))


@contextlib.asynccontextmanager
async def reader(parts: Parts, before: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
    """Have a replica read a stray entry, and then nothing."""
    entries = [STRAY]

    async def read_after(_position: LogPosition) -> list[Event]:
        if entries:
            before()
            raise entries.pop()
        await asyncio.sleep(3600)
        return []

    parts.read_after = read_after  # type: ignore[attr-defined]
    await parts.join([])
    task = asyncio.create_task(parts.follower.run())
    await wait_until(lambda: not entries)
    await asyncio.sleep(0)
    yield
    task.cancel()


async def test_it_is_found_once_and_only_by_what_redis_had_after_it_was_read() -> None:
    parts = Parts()
    async with reader(parts):
        assert parts.state.position is None, "it has stopped following"
        assert stray(parts, at(0), -1.0) is None
        assert stray(parts, at(8), 1.0) is STRAY
        assert stray(parts, at(8), 1.0) is None


async def test_an_event_that_this_version_cannot_read_is_not_stray() -> None:
    parts = Parts()
    async with reader(parts):
        assert stray(parts, at(9), 1.0) is None


async def test_the_next_history_does_not_have_it() -> None:
    parts = Parts()
    async with reader(parts):
        assert stray(parts, OTHER, 1.0) is None
        assert stray(parts, at(8), 1.0) is None


async def test_an_answer_about_the_history_before_stops_nothing() -> None:
    """Redis keeps waiting for events of a history that has been replaced."""
    parts = Parts()

    def replaced() -> None:
        parts.lease.end()
        parts.state.follow([], OTHER, 0.0)

    async with reader(parts, replaced):
        assert parts.state.position == OTHER
        assert stray(parts, OTHER, 1.0) is None
