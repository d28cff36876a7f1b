"""A burst is worked off, an overload is not."""

from collections.abc import Iterable

from queuegate_server.throttling.controlled_delay import CoDel

LATE = 0.02
SHORT = 0.0005


def refused(waiting: CoDel, calls: Iterable[tuple[float, float]]) -> int:
    """Return how many of the calls, each with its wait and the time, are refused."""
    return sum(not waiting.admit(seconds, now) for seconds, now in calls)


def every(
    interval: float, count: int, seconds: float, begin: float = 0.0
) -> list[tuple[float, float]]:
    return [(seconds, begin + number * interval) for number in range(count)]


def overloaded() -> CoDel:
    """Return load shedding that has seen an overload of 0.2 s."""
    waiting = CoDel(0.005)
    assert refused(waiting, every(0.001, 200, LATE)) == 100
    return waiting


def test_an_overload_is_refused_after_a_tenth_of_a_second() -> None:
    assert refused(overloaded(), every(0.001, 50, LATE, begin=0.2)) == 50


def test_calls_that_did_not_wait_are_answered_in_an_overload() -> None:
    calls = [(SHORT if number % 2 else LATE, 0.2 + number / 1000) for number in range(100)]
    assert refused(overloaded(), calls) == 50


def test_in_an_overload_an_eighth_of_the_wait_is_too_long() -> None:
    calls = [(seconds, 0.2) for seconds in (0.0006, 0.0007, 0.004)]
    assert refused(CoDel(0.005), calls) == 0
    assert refused(overloaded(), calls) == 2


def test_a_burst_is_answered() -> None:
    waiting = CoDel(0.005)
    assert refused(waiting, every(0.00005, 1_900, LATE)) == 0
    assert refused(waiting, [(SHORT, 0.11)]) == 0
    assert refused(waiting, every(0.00005, 1_900, LATE, begin=0.12)) == 0


def test_few_calls_are_no_overload() -> None:
    """A machine that does not run the server for a while makes calls late, however often."""
    assert refused(CoDel(0.005), every(0.1, 31, LATE)) == 0
    assert refused(CoDel(0.005), every(1.1, 1_000, LATE)) == 0


def test_after_a_minute_an_overload_is_found_anew() -> None:
    waiting = overloaded()
    assert refused(waiting, every(0.5, 120, LATE, begin=0.2)) == 120
    assert refused(waiting, every(0.01, 31, LATE, begin=60.2)) == 0
    assert refused(waiting, every(0.01, 10, LATE, begin=60.51)) == 10


def test_an_overload_is_over_after_a_second_without_late_calls() -> None:
    waiting = overloaded()
    assert refused(waiting, [(SHORT, 1.1), (LATE, 1.15)]) == 1
    assert refused(waiting, [(SHORT, 2.2), (LATE, 2.21)]) == 0
