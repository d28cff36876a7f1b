"""Gates under faults, briefly; `python -m tests.resilience.sync.faults` takes 20 minutes."""

import pytest

from tests.resilience.sync.faults import run

pytestmark = pytest.mark.timeout(300)


async def test_no_answer_comes_from_before_a_barrier() -> None:
    outcome = await run(0.5, gates=20, seed=3)
    assert outcome.stale == []
    assert outcome.decided > 100
    assert outcome.barriers > 2


async def test_without_barriers_old_answers_are_noticed() -> None:
    for seed in range(5):
        outcome = await run(0.3, gates=20, seed=seed, wait=False)
        if outcome.stale:
            return
    pytest.fail("old answers are not noticed")
