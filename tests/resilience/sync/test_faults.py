"""A round of each fault; `python -m tests.support.faults gates` runs a hundred."""

import random
from pathlib import Path

import pytest

from tests.resilience.sync.faults import FAULTS, running
from tests.support.faults import drawn, play

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier(tmp_path: Path) -> None:
    chance = random.Random(3)
    async with running(tmp_path, chance, gates=20) as system:
        await play(system, FAULTS, drawn(FAULTS, len(FAULTS), chance))
    assert system.tally.violations == []
    assert system.tally.decided > 100
    assert system.tally.barriers > 2


async def test_without_barriers_old_answers_are_noticed(tmp_path: Path) -> None:
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        async with running(folder, random.Random(seed), gates=20, wait=False) as system:
            await play(system, FAULTS, ["process-stopped", "connections-refused"])
        if system.tally.violations:
            return
    pytest.fail("old answers are not noticed")
