"""The checker finds faults in a real server: each breaks a promise about answers."""

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.resilience.history import rounds

SHORT_ROUNDS, LONG_ROUNDS = 4, 8
"""A fault shows within one or two; on a busy machine more may be needed, of twice the length."""
OLD_GROUPS: Final = "outdated groups"
LIFETIMES: Final[Mapping[str, Any]] = {"seconds": 8.0, "invalidates": False, "busy": 0.5}
FLEET: Final[Mapping[str, Any]] = {"seconds": 5.0, "fleet": True}
FAULTS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "memo_outlives_invalidation": (OLD_GROUPS, {}),
    "slow_look_up_undoes_invalidation": (OLD_GROUPS, {}),
    "invalidation_stays_in_one_worker": (OLD_GROUPS, {"workers": rounds.WORKERS}),
    "groups_never_expire": (OLD_GROUPS, LIFETIMES),
    "stale_groups_never_expire": (OLD_GROUPS, LIFETIMES),
    "replica_ignores_others": (OLD_GROUPS, FLEET),
    "fence_accepts_outdated_groups": (OLD_GROUPS, FLEET),
    "memo_outlives_swap": ("an earlier revision", {}),
    "stale_revision": ("several revisions in one call", {}),
    "memo_ignores_trust": ("a wrong decision", {}),
    "revoked_token_is_known": ("rights", {}),
    "roles_stay": ("rights", {}),
}
"""By the name of a function of `planted.py`: the kind of violation, and the rounds that show it."""


@pytest.mark.parametrize(("fault", "kind", "set_up"), [(each, *FAULTS[each]) for each in FAULTS])
def test_a_fault_is_found(fault: str, kind: str, set_up: Mapping[str, Any]) -> None:
    seconds, rest = set_up.get("seconds", 2.5), {**set_up}
    rest.pop("seconds", None)
    for number in range(SHORT_ROUNDS + LONG_ROUNDS):
        length = seconds if number < SHORT_ROUNDS else 2 * seconds
        violations = rounds.run(length, fault=fault, **rest).violations
        if any(violation.kind == kind for _, violation in violations):
            return
    pytest.fail("no round shows it")
