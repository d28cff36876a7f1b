"""The checker finds groups in a real server that are used for longer than the settings allow."""

import pytest

from tests.resilience.history import faults


@pytest.mark.parametrize("fault", ["groups_never_expire", "stale_groups_never_expire"])
def test_groups_that_live_too_long_are_found(fault: str) -> None:
    assert faults.is_found("outdated groups", fault, 8, invalidates=False, busy=0.5)
