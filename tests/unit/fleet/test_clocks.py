"""Clocks that differ, as far as answers of Redis can show it."""

import pytest

from queuegate_server.fleet.events import Clock
from queuegate_server.fleet.health import SETTLING_SECONDS, ClockWatch


@pytest.mark.parametrize(
    ("clocks", "names"),
    [
        ({"a": (0.0, 0.1), "b": (5.2, 5.3)}, "a and b"),
        ({"b": (-0.1, 0.0), "a": (5.0, 6.0), "c": None}, ""),
        ({"a": (0.0, 60.0), "b": (20.0, 21.0)}, ""),  # an answer that took a minute
        ({"a": (0.0, 0.1), "b": (-7.0, -6.9), "c": (3.0, 3.1)}, "b and c"),
        ({"a": None}, ""),
        ({}, ""),
    ],
)
def test_a_difference_is_one_that_no_delay_explains(
    clocks: dict[str, Clock | None], names: str
) -> None:
    watch = ClockWatch()
    watch.update(clocks, 0.0)
    assert watch.mistake(0.0) == ""
    assert (names in watch.mistake(SETTLING_SECONDS)) is True
    assert bool(watch.mistake(SETTLING_SECONDS)) is bool(names)


def test_another_redis_with_another_clock_is_no_difference() -> None:
    """After a fail-over, replicas do not ask it at the same moment."""
    watch = ClockWatch()
    watch.update({"a": (0.0, 0.0), "b": (9.0, 9.0)}, 0.0)
    watch.update({"a": (9.0, 9.0), "b": (9.0, 9.0)}, 0.5)
    assert watch.mistake(SETTLING_SECONDS + 1.0) == ""
