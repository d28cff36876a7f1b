"""The checker finds a replica of a fleet that answers from groups which others have forgotten."""

from tests.resilience.history import faults


def test_groups_that_outlive_an_invalidation_in_a_fleet_are_found() -> None:
    assert faults.is_found("outdated groups", "replica_ignores_others", 5, fleet=True)
