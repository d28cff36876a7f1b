"""A change whose event Redis has lost is made again."""

from typing import Any, cast

import pytest

from queuegate_server.fleet.changes import ATTEMPTS, FleetChanges
from queuegate_server.fleet.events import Change
from queuegate_server.fleet.keys import LogPosition
from queuegate_server.fleet.session import FleetSession
from queuegate_server.sync.barrier import Unconfirmed
from queuegate_server.sync.changes import NotReached


def history(number: int) -> LogPosition:
    return LogPosition(b"history no. %04d" % number, 0, b"")


class Member:
    """A replica whose Redis loses the newest events, and has older groups then."""

    error = None

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.now = 0.0
        self.session = FleetSession("own", "a", 0.0)
        self.log = self.session.log
        self.log.follow([], history(0), 0.0)
        self.accepted: list[bool] = []
        """Whether it used groups from the start of the history when each event was appended."""

    def send_later(self, change: Change) -> None:
        self.session.send_later(change)

    async def append(self, _change: Change) -> LogPosition:
        head = self.log.newest
        assert head is not None
        self.accepted.append(self.session.fence.accepts("p", "sam", head))
        event = head._replace(sequence=head.sequence + 1, nonce=b"1")
        self.log.note_known(event)
        return event

    async def heartbeat(self) -> None:
        self.now += 60.0
        self.session.certified_at = self.now
        has_event = self.log.newest != self.log.position
        if self.losses and has_event:
            self.losses -= 1
            self.log.lose()
            self.log.follow([], history(self.losses + 1), self.now)


class World:
    """The parts around the changes of a replica."""

    def __init__(self, losses: int) -> None:
        self.member = Member(losses)
        self.invalidated = 0
        self.waited_for: list[int] = []
        self.changes = FleetChanges(
            cast("Any", self.member), cast("Any", self), lambda: self.member.now
        )

    async def invalidate(self) -> None:
        await self.changes.invalidate("p", ["sam"], wait=True)

    async def invalidate_groups(self, _partition: str, _users: list[str]) -> int:
        self.invalidated += 1
        return 1

    async def gates_follow(self) -> Unconfirmed:
        self.waited_for.append(self.invalidated)
        return Unconfirmed()


@pytest.mark.parametrize("losses", range(ATTEMPTS))
async def test_it_takes_effect_again_in_the_history_that_follows(losses: int) -> None:
    """Groups from before it may have come back: into the cache, and into gates that moved here."""
    world = World(losses)
    await world.invalidate()
    times = losses + 1
    assert world.invalidated == times
    assert world.waited_for[-1] == times
    assert world.member.accepted == [False] * times
    assert not world.member.session.unsent


async def test_the_caller_hears_of_it_if_redis_goes_on_to_lose_it() -> None:
    world = World(ATTEMPTS)
    with pytest.raises(NotReached, match=f"Redis lost the event {ATTEMPTS} times"):
        await world.invalidate()
    assert [change.users for change in world.member.session.unsent] == [frozenset({"sam"})]
