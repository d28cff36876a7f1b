"""Short forms of `python -m tests.e2e.hadoop.faults`: one round of each fault."""

import pytest

from tests.e2e.hadoop.faults import KINDS, drawn, run
from tests.support.servers.resourcemanager.process import BUILD_SECONDS

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


def test_no_old_answer_and_no_denial_by_a_failed_lookup() -> None:
    outcome = run(drawn(len(KINDS), seed=1))
    assert outcome.violations == []
    assert outcome.failed
    assert outcome.barriers > 3 * len(KINDS)


def test_what_the_rounds_notice() -> None:
    """A gate that goes on with its last state, and a fallback that denies, give wrong answers."""
    faults = [("queuegate", "cut"), ("directory", "kill")]
    outcome = run(faults, "fair", stale="10m", fallback="deny")
    reasons = {violation.rpartition(" is ")[2] for violation in outcome.violations}
    assert reasons == {"allowed by an old state", "denied by a failed look-up"}
