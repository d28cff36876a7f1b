"""A fleet whose Redis is switched over to another server, briefly."""

from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, running

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path, is_replicated=True) as rounds:
        await rounds.round(FAULTS["switched-over"])
    assert rounds.faults == []
    assert rounds.barriers == 1
    assert rounds.answers > 100
