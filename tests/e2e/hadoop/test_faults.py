"""A round of each fault; `python -m tests.support.faults resourcemanager` runs a hundred."""

import random
from pathlib import Path

import pytest

from tests.e2e.hadoop.faults import FAULTS, running
from tests.support.faults import drawn, play
from tests.support.servers.resourcemanager.process import BUILD_SECONDS

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]


async def test_no_old_answer_and_no_denial_by_a_failed_lookup(tmp_path: Path) -> None:
    chance = random.Random(1)
    async with running(tmp_path, chance) as system:
        await play(system, FAULTS, drawn(FAULTS, len(FAULTS), chance))
    assert system.tally.violations == []
    assert system.tally.failed
    assert system.tally.barriers > 3 * len(FAULTS)


async def test_what_the_rounds_notice(tmp_path: Path) -> None:
    """A gate that goes on with its last state, and a fallback that denies, give wrong answers."""
    async with running(
        tmp_path, random.Random(), scheduler="fair", stale="10m", fallback="deny"
    ) as system:
        await play(system, FAULTS, ["queuegate-cut-off", "directory-killed"])
    reasons = {violation.rpartition(" is ")[2] for violation in system.tally.violations}
    assert reasons == {"allowed by an old state", "denied by a failed look-up"}
