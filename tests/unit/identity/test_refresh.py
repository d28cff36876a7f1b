"""Known users are looked up again in the order of asking, at a limited rate."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from queuegate_server.identity import refresh
from queuegate_server.identity.refresh import RefreshQueue
from queuegate_server.throttling.token_bucket import TokenBucket
from tests.support.fakes.clock import ManualClock

RATE = 500
BURST = 8


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """A queue and its load, on a manual clock and timers; lookups last until the test ends them."""

    def __init__(self, capacity: int = 1_000_000) -> None:
        self.clock = ManualClock()
        self.capacity = capacity
        self.started: list[str] = []
        self.ending: list[Callable[[Any], None]] = []
        self.superfluous: set[str] = set()
        self.timers: list[Timer] = []
        bucket = TokenBucket(RATE, BURST, self.clock)
        self.waiting = 0
        self.wait, self.acquire = bucket.wait, bucket.acquire
        self.queue = RefreshQueue(self._start, self, call_later=self._call_later)

    def _start(self, user: str) -> Any:
        if user in self.superfluous:
            return None
        self.started.append(user)
        return self

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        self.ending.append(call)

    def end(self, count: int) -> None:
        for _ in range(count):
            self.ending.pop(0)(None)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.timers.append(Timer(self.clock.now + seconds, call))
        return self.timers[-1]

    def passes(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.timers and self.timers[0].at <= end:
            timer = self.timers.pop(0)
            self.clock.now = max(self.clock.now, timer.at)
            if not timer.cancelled:
                timer.call()
        self.clock.now = end

    def add(self, count: int) -> list[str]:
        users = [f"u{number}" for number in range(count)]
        for user in users:
            self.queue.add(user)
        return users


def test_the_first_are_started_at_once_and_all_in_the_order_of_asking() -> None:
    world = World()
    assert world.queue.add("first")
    users = world.add(100)
    assert world.started == ["first", *users[: BURST - 1]]
    assert not world.queue.add("u99"), "the user is queued already"
    world.passes(2)
    assert world.started == ["first", *users]
    assert len(world.queue) == 0
    assert not world.timers, "nothing is done while nobody is queued"


def test_nobody_overtakes_those_who_are_queued() -> None:
    world = World()
    world.add(100)
    world.passes(0.02)
    assert not world.queue.add("late")
    world.passes(2)
    assert world.started[-1] == "late"


def test_ten_thousand_at_once_are_spread_by_the_rate() -> None:
    world = World()
    users = world.add(10_000)
    seconds = 0
    while len(world.queue):
        before = len(world.started)
        world.passes(1)
        seconds += 1
        assert len(world.started) - before <= RATE + 1
    assert world.started == users
    assert seconds <= 10_000 / RATE + 1


def test_no_more_run_at_once_than_the_capacity() -> None:
    world = World(capacity=3)
    world.add(20)
    world.passes(10)
    assert len(world.started) == 3
    world.end(2)
    world.passes(0.01)
    assert len(world.started) == 5
    world.capacity = 1
    world.end(2)
    world.passes(10)
    assert len(world.started) == 5


def test_nobody_is_queued_for_a_resolver_that_must_not_be_asked() -> None:
    world = World(capacity=0)
    assert not world.queue.add("sue")
    assert len(world.queue) == 0
    world.capacity = 1
    world.add(5)
    assert len(world.queue) == 4
    world.capacity = 0
    world.end(1)
    world.passes(0.01)
    assert len(world.queue) == 0
    assert not world.timers


def test_users_who_need_no_lookup_any_more_are_skipped() -> None:
    world = World(capacity=1)
    users = world.add(4)
    world.superfluous = {users[1], users[2]}
    world.end(1)
    world.passes(1)
    assert world.started == [users[0], users[3]]


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "MAX_QUEUED", 10)
    world = World(capacity=1)
    world.add(100)
    assert len(world.queue) == 10


def test_after_close_nothing_starts() -> None:
    world = World()
    world.add(100)
    world.queue.close()
    world.passes(10)
    assert len(world.started) == BURST
    assert not world.queue.add("sue")
    world.queue.close()


async def test_on_a_real_loop_the_queue_empties_itself() -> None:
    done = asyncio.Event()
    started: list[str] = []

    async def look_up() -> None:
        await asyncio.sleep(0)

    def start(user: str) -> asyncio.Task[None]:
        started.append(user)
        if user == "u29":
            done.set()
        return asyncio.get_running_loop().create_task(look_up())

    world = World(capacity=4)
    bucket = TokenBucket(RATE, 1, asyncio.get_running_loop().time)
    world.wait, world.acquire = bucket.wait, bucket.acquire
    queue = RefreshQueue(start, world)
    users = [f"u{number}" for number in range(30)]
    for user in users:
        queue.add(user)
    async with asyncio.timeout(60):
        await done.wait()
    assert started == users
    queue.close()
