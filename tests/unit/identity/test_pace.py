"""How many look-ups of known users begin in a second, by what the event loop has to do."""

import time
from pathlib import Path

import pytest

from queuegate_server.identity import pace
from queuegate_server.identity.pace import (
    BURST,
    BUSY,
    HIGHEST,
    LOWEST,
    WINDOW,
    Pace,
    occupied_seconds,
)
from tests.support.fakes.clock import ManualClock


class Loop:
    """An event loop that is occupied for a part of the time that passes."""

    def __init__(self, load: float) -> None:
        self.load = load
        self.clock = ManualClock()
        self.occupied = 0.0
        self.pace = Pace(self.clock, lambda: self.occupied)

    def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.occupied += seconds * self.load

    def began(self, seconds: float, needed: float = 0) -> int:
        """Return how many look-ups began in so many seconds if there were always more to begin."""
        count = 0
        for _ in range(round(seconds / 0.005)):
            self.passes(0.005)
            while self.pace.take(needed):
                count += 1
        return count


def test_a_few_begin_at_once_and_then_one_after_the_other() -> None:
    loop = Loop(1.0)
    assert [loop.pace.take(0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    loop.passes(1.01 / LOWEST)
    assert [loop.pace.take(0) for _ in range(2)] == [True, False]


def test_a_pause_does_not_add_up() -> None:
    loop = Loop(1.0)
    loop.passes(3600)
    assert sum(loop.pace.take(0) for _ in range(1_000)) == BURST


@pytest.mark.parametrize(
    ("load", "rate"),
    [(0.0, HIGHEST), (BUSY - 0.01, HIGHEST), (BUSY + 0.01, LOWEST), (1.0, LOWEST)],
)
def test_the_rate_follows_the_load(load: float, rate: float) -> None:
    loop = Loop(load)
    loop.began(2)
    assert loop.pace.rate == rate
    assert loop.began(10) == pytest.approx(10 * rate, rel=0.02)


def test_the_rate_falls_at_once_when_the_loop_gets_busy() -> None:
    loop = Loop(0.1)
    loop.began(2)
    loop.load = 0.9
    loop.began(6 * WINDOW)
    assert loop.pace.rate == LOWEST


@pytest.mark.parametrize("needed", [10, 400, 5_000])
def test_what_is_needed_is_allowed_whatever_the_load(needed: float) -> None:
    loop = Loop(1.0)
    assert loop.began(10, needed) == pytest.approx(10 * max(LOWEST, needed), rel=0.02)


def test_a_thread_is_occupied_while_it_runs_or_could() -> None:
    start, end = occupied_seconds(), 0.0
    while end < start + 0.05:
        end = occupied_seconds()


@pytest.mark.parametrize("content", [None, b"", b"1 2", b"a b c"])
def test_where_the_system_does_not_tell_it_is_the_time_of_the_thread(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "schedstat"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setattr(pace, "_SCHEDULED", file)
    monkeypatch.setattr(time, "thread_time", lambda: 7.5)
    assert occupied_seconds() == 7.5
    file.write_bytes(b"2000000000 500000000 3\n")
    assert occupied_seconds() == 2.5
