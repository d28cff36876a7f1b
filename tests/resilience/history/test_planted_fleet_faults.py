"""The checker finds faults of a fleet: a replica answers from groups that are forgotten."""

import pytest

from tests.resilience.history import faults


@pytest.mark.parametrize("fault", ["replica_ignores_others", "fence_accepts_outdated_groups"])
def test_groups_that_outlive_an_invalidation_in_a_fleet_are_found(fault: str) -> None:
    assert "outdated groups" in faults.kinds_found(fault, 5, fleet=True)
