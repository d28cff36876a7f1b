"""Known users are looked up in the order of asking, as fast as the loop and the source allow."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from queuegate_server.identity import refresh
from queuegate_server.identity.pace import BURST, HIGHEST, LOWEST, Pace
from queuegate_server.identity.refresh import RefreshQueue
from tests.support.fakes.clock import ManualClock

WITHIN = 150.0


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Refreshes on a manual clock and timers; look-ups are noted and last until told."""

    def __init__(self, load: float = 0.0, most: int = 1_000_000) -> None:
        self.clock = ManualClock()
        self.load = load
        self.most = most
        self.started: list[str] = []
        self.ending: list[Callable[[Any], None]] = []
        self.superfluous: set[str] = set()
        self.timers: list[Timer] = []
        self.refresh = RefreshQueue(
            self._start,
            lambda: self.most,
            lambda: WITHIN,
            clock=self.clock,
            pace=Pace(self.clock, lambda: self.clock.now * self.load),
            later=self._later,
        )

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

    def _later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.clock.now + seconds, call))
        return self.timers[-1]

    def passes(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.timers and self.timers[0].at <= end:
            timer = self.timers.pop(0)
            self.clock.now = timer.at
            if not timer.cancelled:
                timer.call()
        self.clock.now = end

    def ask(self, count: int) -> list[str]:
        users = [f"u{number}" for number in range(count)]
        for user in users:
            self.refresh.ask(user)
        return users


def test_the_first_are_started_at_once_and_all_in_the_order_of_asking() -> None:
    world = World()
    assert world.refresh.ask("first")
    users = world.ask(100)
    assert world.started == ["first", *users[: BURST - 1]]
    assert not world.refresh.ask("u99"), "she waits already"
    world.passes(2)
    assert world.started == ["first", *users]
    assert len(world.refresh) == 0
    assert not world.timers, "nothing is done while nobody waits"


def test_nobody_overtakes_those_who_wait() -> None:
    world = World()
    world.ask(100)
    world.passes(0.02)
    assert not world.refresh.ask("late")
    world.passes(2)
    assert world.started[-1] == "late"


@pytest.mark.parametrize(("load", "most_a_second"), [(0.0, HIGHEST), (1.0, LOWEST)])
def test_ten_thousand_at_once_are_spread_by_the_load(load: float, most_a_second: float) -> None:
    world = World(load)
    users = world.ask(10_000)
    seconds = 0
    while len(world.refresh):
        before = len(world.started)
        world.passes(1)
        seconds += 1
        assert len(world.started) - before <= most_a_second * 1.05
    assert world.started == users
    assert seconds <= 10_000 / most_a_second * 1.05 + 1


def test_everybody_is_looked_up_in_time_however_busy_the_loop() -> None:
    world = World(load=1.0)
    users = world.ask(30_000)
    world.passes(WITHIN * 1.01)
    assert world.started == users
    assert 30_000 / WITHIN > LOWEST


def test_no_more_run_at_once_than_the_source_gives_turns() -> None:
    world = World(most=3)
    world.ask(20)
    world.passes(10)
    assert len(world.started) == 3
    world.end(2)
    world.passes(0.01)
    assert len(world.started) == 5
    world.most = 1
    world.end(2)
    world.passes(10)
    assert len(world.started) == 5


def test_nobody_waits_for_a_source_that_is_left_alone() -> None:
    world = World(most=0)
    assert not world.refresh.ask("sue")
    assert len(world.refresh) == 0
    world.most = 1
    world.ask(5)
    assert len(world.refresh) == 4
    world.most = 0
    world.passes(0.01)
    assert len(world.refresh) == 0
    assert not world.timers


def test_who_needs_no_look_up_any_more_is_passed_over() -> None:
    world = World(most=1)
    users = world.ask(4)
    world.superfluous = {users[1], users[2]}
    world.end(1)
    world.passes(1)
    assert world.started == [users[0], users[3]]


def test_the_line_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "_LONGEST", 10)
    world = World(most=1)
    world.ask(100)
    assert len(world.refresh) == 10


def test_after_close_nothing_starts() -> None:
    world = World()
    world.ask(100)
    world.refresh.close()
    world.passes(10)
    assert len(world.started) == BURST
    assert not world.refresh.ask("sue")
    world.refresh.close()


async def test_on_a_real_loop_the_line_empties_itself() -> None:
    done = asyncio.Event()
    started: list[str] = []

    async def look_up() -> None:
        await asyncio.sleep(0)

    def start(user: str) -> asyncio.Task[None]:
        started.append(user)
        if user == "u29":
            done.set()
        return asyncio.get_running_loop().create_task(look_up())

    line = RefreshQueue(start, lambda: 4, lambda: WITHIN)
    users = [f"u{number}" for number in range(30)]
    for user in users:
        line.ask(user)
    async with asyncio.timeout(60):
        await done.wait()
    assert started == users
    line.close()
