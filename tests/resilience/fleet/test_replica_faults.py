"""Replicas that stop, or that cannot reach Redis, briefly."""

from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, running

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path) as rounds:
        for name in ("replica-stopped", "replica-cut-off"):
            await rounds.round(FAULTS[name])
    assert rounds.faults == []
    assert rounds.barriers == 2
    assert rounds.answers > 100
    assert rounds.kept > 0


async def test_without_a_barrier_old_answers_are_noticed(tmp_path: Path) -> None:
    async with running(tmp_path, wait=False) as rounds:
        await rounds.round(FAULTS["replica-cut-off"])
    assert rounds.faults
