"""A fleet whose Redis fails, briefly; `python -m tests.support.faults fleet` takes hours."""

import random
from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, LONGER_THAN_A_LEASE, running
from tests.support.faults import play

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path, random.Random(), frozen=LONGER_THAN_A_LEASE) as rounds:
        await play(rounds, FAULTS, ["redis-killed", "stream-trimmed", "redis-paused"])
    assert rounds.tally.violations == []
    assert rounds.tally.barriers == 3
    assert rounds.tally.answers > 100
    assert rounds.tally.kept > 0
