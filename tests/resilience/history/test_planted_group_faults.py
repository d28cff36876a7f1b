"""The checker finds faults of caches in a real server: each breaks a promise about groups."""

import pytest

from tests.resilience.history import faults, rounds


@pytest.mark.parametrize(
    ("fault", "workers"),
    [
        ("memo_outlives_invalidation", 1),
        ("slow_look_up_undoes_invalidation", 1),
        ("invalidation_stays_in_one_worker", rounds.WORKERS),
    ],
)
def test_groups_that_outlive_an_invalidation_are_found(fault: str, workers: int) -> None:
    assert faults.is_found("outdated groups", fault, workers=workers)
