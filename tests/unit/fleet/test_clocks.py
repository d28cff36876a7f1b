"""Clocks that differ, as far as answers of Redis can show it."""

from queuegate_server.fleet.events import Clock
from queuegate_server.fleet.health import SETTLING_SECONDS, ClockWatch
from tests.support.rows import rows


@rows
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
