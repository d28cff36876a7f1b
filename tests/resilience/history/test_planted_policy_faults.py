"""The checker finds faults in a real server: each breaks a promise about policies or rights."""

import pytest

from tests.resilience.history import faults


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("memo_outlives_swap", "an earlier revision"),
        ("stale_revision", "several revisions in one call"),
        ("memo_ignores_trust", "a wrong decision"),
        ("revoked_token_is_known", "rights"),
        ("roles_stay", "rights"),
    ],
)
def test_a_fault_is_found(fault: str, kind: str) -> None:
    assert faults.is_found(kind, fault)
