"""Pauses before retries grow up to the longest one."""

import pytest

from queuegate_server.runtime import pauses
from queuegate_server.runtime.pauses import Pauses

ALL = {name: each for name, each in vars(pauses).items() if isinstance(each, Pauses)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Pauses(1.0), [1.0, 1.0, 1.0, 1.0]),
        (Pauses(1.0, most=5.0), [1.0, 2.0, 4.0, 5.0]),
        (Pauses(2.0, most=1.0), [2.0, 2.0, 2.0, 2.0]),
        (Pauses(1.0, most=50.0, factor=3.0), [1.0, 3.0, 9.0, 27.0]),
    ],
)
def test_pauses_grow(given: Pauses, expected: list[float]) -> None:
    assert [given.after(failures) for failures in range(1, 5)] == expected
    assert given.after(10_000) == max(given.first, given.most)


def test_jitter_spreads_pauses() -> None:
    spread = {Pauses(10.0, jitter=0.2).after(1) for _ in range(100)}
    assert len(spread) > 1
    assert all(8.0 <= each <= 12.0 for each in spread)


@pytest.mark.parametrize("name", ALL)
def test_no_retry_is_busy_and_none_is_given_up(name: str) -> None:
    assert 0.05 <= ALL[name].first <= ALL[name].after(1_000_000) * 1.25 <= 400
