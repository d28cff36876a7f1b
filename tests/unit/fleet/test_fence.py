"""Shared groups that a replica does not use because of changes of its own."""

import asyncio
from typing import Any, cast

import pytest

from queuegate_server.fleet.changes import MAX_AT_ONCE, FleetChanges
from queuegate_server.fleet.connection import StoreUnavailable
from queuegate_server.fleet.events import Change, Event
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.session import FleetSession
from queuegate_server.sync.change_log import POLICY_CHANGED, StateChange
from queuegate_server.sync.changes import NotReached

EPOCH = b"e" * 16
HEAD = LogPosition(EPOCH, 7, b"nonce 7")
NEXT = Event(LogPosition(EPOCH, 8, b"nonce 8"), HEAD.nonce, Change("reload"))


class World:
    """The state of a replica that follows a history, and changes that wait to be sent."""

    def __init__(self) -> None:
        self.session = FleetSession("own", "me", 0.0)
        self.log, self.fence = self.session.log, self.session.fence
        self.log.follow([], HEAD, 0.0)

    def accepts(self, user: str = "sue", partition: str = "p") -> bool:
        return self.fence.accepts(partition, user, HEAD)


@pytest.fixture
def world() -> World:
    return World()


def test_groups_of_users_who_are_invalidated_are_refused(world: World) -> None:
    assert world.accepts()
    pending = world.fence.begin("p", ["sue"])
    assert not world.accepts()
    assert world.accepts("bob")
    assert world.accepts("sue", "other")
    world.fence.end(pending)
    assert world.accepts()


def test_no_name_stands_for_all_users_of_the_partition(world: World) -> None:
    world.fence.begin("p", ())
    assert not world.accepts()
    assert not world.accepts("bob")
    assert world.accepts("sue", "other")


def test_an_invalidation_is_pending_until_the_event_is_applied(world: World) -> None:
    pending = world.fence.begin("p", ["sue"])
    world.fence.end(pending, NEXT.position)
    assert not world.accepts()
    assert world.log.apply(NEXT)
    assert world.accepts(), "the event of this test forgets nobody"


def test_an_invalidation_ends_with_the_history_of_its_event(world: World) -> None:
    world.fence.end(world.fence.begin("p", ["sue"]), NEXT.position)
    other = HEAD._replace(epoch=b"o" * 16)
    world.log.lose()
    assert not world.fence.accepts("p", "sue", other)
    world.log.follow([], other, 0.0)
    assert world.fence.accepts("p", "sue", other)


def test_while_own_changes_wait_nothing_is_accepted_or_written(world: World) -> None:
    world.session.send_later(NEXT.change)
    assert world.fence.position is None
    assert not world.accepts()
    world.session.unsent.clear()
    assert world.fence.position == HEAD
    assert world.accepts()


def test_the_groups_of_gates_are_judged_by_pending_invalidations_too(world: World) -> None:
    assert world.fence.cursor == HEAD.cursor
    assert world.fence.since(HEAD.cursor) == []
    first = world.fence.begin("p", ["sue"])
    world.fence.begin("q", ())
    assert set(world.fence.since(HEAD.cursor) or ()) == {
        StateChange("p", frozenset(("sue",))),
        StateChange("q"),
    }
    world.fence.end(first, NEXT.position)
    assert world.log.apply(NEXT)
    assert world.fence.since(HEAD.cursor) == [POLICY_CHANGED, StateChange("q")]
    assert world.fence.since(NEXT.position.cursor) == [StateChange("q")]
    assert world.fence.cursor == NEXT.position.cursor


def test_the_groups_of_gates_from_an_unknown_event_cannot_be_judged(world: World) -> None:
    for unknown in (
        NEXT.position,
        HEAD._replace(nonce=b"another"),
        HEAD._replace(epoch=b"o" * 16),
        HEAD._replace(sequence=6),
        HEAD._replace(epoch=b""),
    ):
        assert world.fence.since(unknown.cursor) is None
    world.session.send_later(NEXT.change)
    assert world.fence.since(HEAD.cursor) is None
    assert world.fence.cursor is None
    world.session.unsent.clear()
    world.log.lose()
    assert world.fence.since(HEAD.cursor) is None
    assert world.fence.cursor is None


class Member:
    """A replica as far as an invalidation needs it."""

    def __init__(self, world: World, error: Exception | None = None) -> None:
        self.session = world.session
        self.error = StoreUnavailable("it hangs")
        self.accepted_while_appending: bool | None = None
        self._world = world
        self._error = error

    async def append(self, _change: Change) -> LogPosition:
        self.accepted_while_appending = self._world.accepts()
        if self._error is not None:
            raise self._error
        return NEXT.position

    async def heartbeat(self) -> None:
        """Do nothing: Redis cannot be reached."""

    def send_later(self, change: Change) -> None:
        self.session.send_later(change)


def changes_of(member: Member) -> FleetChanges:
    return FleetChanges(cast("Any", member), cast("Any", Local()), lambda: 0.0)


class Local:
    """Changes of a process that caches nothing."""

    async def invalidate_groups(self, _partition: str, _users: object) -> int:
        return 1


async def invalidate(member: Member, changes: FleetChanges | None = None) -> None:
    changes = changes or changes_of(member)
    await changes.invalidate("p", ("sue",), wait=False)


async def test_an_invalidation_refuses_groups_until_its_event_is_applied(world: World) -> None:
    """Otherwise the groups that were dropped here would come back from Redis at once."""
    member = Member(world)
    await invalidate(member)
    assert member.accepted_while_appending is False
    assert not world.accepts()
    assert world.log.apply(NEXT)
    assert world.accepts()


async def test_an_invalidation_whose_caller_is_gone_is_carried_out(world: World) -> None:
    """Its event may have been appended when the call was cancelled."""
    member = Member(world)
    appending, may_append = asyncio.Event(), asyncio.Event()

    async def append(_change: Change) -> LogPosition:
        appending.set()
        await may_append.wait()
        return NEXT.position

    member.append = append  # type: ignore[method-assign]
    call = asyncio.create_task(invalidate(member))
    await appending.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    may_append.set()
    await asyncio.sleep(0)
    assert not world.accepts()
    assert world.log.apply(NEXT)
    assert world.accepts()


async def test_changes_of_callers_that_are_gone_are_bounded(world: World) -> None:
    member = Member(world)

    async def append(_change: Change) -> LogPosition:
        await asyncio.Event().wait()
        return NEXT.position

    member.append = append  # type: ignore[method-assign]
    changes = changes_of(member)
    calls = [asyncio.create_task(invalidate(member, changes=changes)) for _ in range(MAX_AT_ONCE)]
    await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    with pytest.raises(NotReached, match="too many changes"):
        await invalidate(member, changes=changes)
    for task in changes._work:
        task.cancel()


async def test_an_invalidation_that_redis_did_not_get_leaves_nothing_accepted(
    world: World,
) -> None:
    with pytest.raises(NotReached):
        await invalidate(Member(world, StoreUnavailable("it hangs")))
    assert not world.accepts("bob")
    world.session.unsent.clear()
    assert world.accepts()
