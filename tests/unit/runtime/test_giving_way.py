"""Whoever parses a large document beside calls sleeps for as long as it works."""

import pytest

from queuegate_server.runtime import giving_way as turns
from queuegate_server.runtime.giving_way import give_way, in_turns, taking_turns


class Clock:
    """Time passes only where it is asked for, or slept."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(turns, "time", made)
    return made


def test_it_sleeps_for_as_long_as_it_has_worked(clock: Clock) -> None:
    with taking_turns():
        for _ in in_turns(range(10)):
            clock.now += 0.001
    assert clock.slept == pytest.approx([0.002] * 4)


def test_what_was_long_is_followed_by_a_bounded_sleep(clock: Clock) -> None:
    with taking_turns():
        clock.now += 0.03
        give_way()
        clock.now += 3_600
        give_way()
    assert clock.slept == pytest.approx([0.03, 0.05])


def test_who_takes_no_turns_never_sleeps(clock: Clock) -> None:
    with taking_turns():
        pass
    clock.now += 1
    give_way()
    assert not clock.slept
