"""A fleet whose Redis is replaced by one that lacks events, briefly."""

from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, running

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path, is_replicated=True) as rounds:
        await rounds.round(FAULTS["events-lost"])
    assert rounds.faults == []
    assert rounds.barriers == 1
    assert rounds.answers > 100
