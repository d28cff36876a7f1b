"""A fleet whose Redis is replaced by another server, briefly: one that has all events, and one that
lacks the newest.
"""

import random
from pathlib import Path

import pytest

from tests.resilience.fleet.faults import OF_REPLICATED, running
from tests.support.faults import play

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("fault", ["switched-over", "events-lost"])
async def test_no_answer_comes_from_before_a_barrier(fault: str, tmp_path: Path) -> None:
    async with running(tmp_path, random.Random(), OF_REPLICATED) as rounds:
        await play(rounds, OF_REPLICATED, [fault])
    assert rounds.tally.violations == []
    assert rounds.tally.barriers == 1
    assert rounds.tally.answers > 100
