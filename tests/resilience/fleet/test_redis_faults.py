"""A fleet whose Redis fails, briefly; `python -m tests.resilience.fleet.faults` takes hours."""

from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, running

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path) as rounds:
        for name in ("redis-killed", "stream-trimmed", "redis-paused"):
            await rounds.round(FAULTS[name])
    assert rounds.faults == []
    assert rounds.barriers == 3
    assert rounds.answers > 100
    assert rounds.kept > 0
