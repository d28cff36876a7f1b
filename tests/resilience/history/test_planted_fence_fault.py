"""The checker finds a replica of a fleet that takes outdated groups from Redis."""

from tests.resilience.history import faults


def test_groups_that_an_event_has_made_outdated_are_found() -> None:
    assert faults.is_found("outdated groups", "fence_accepts_outdated_groups", 5, fleet=True)
