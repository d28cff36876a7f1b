"""Replicas that stop, or that cannot reach Redis, briefly."""

import random
from pathlib import Path

import pytest

from tests.resilience.fleet.faults import FAULTS, running
from tests.support.faults import play

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    async with running(tmp_path, random.Random()) as rounds:
        await play(rounds, FAULTS, ["replica-stopped", "replica-cut-off"])
    assert rounds.tally.violations == []
    assert rounds.tally.barriers == 2
    assert rounds.tally.answers > 100
    assert rounds.tally.kept > 0


async def test_without_a_barrier_old_answers_are_noticed(tmp_path: Path) -> None:
    async with running(tmp_path, random.Random(), wait=False) as rounds:
        await play(rounds, FAULTS, ["replica-cut-off"])
    assert rounds.tally.violations
