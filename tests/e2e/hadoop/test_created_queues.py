"""Queues that the capacity scheduler creates: ours against Hadoop's own scheduler."""

import random
from collections import Counter
from typing import Final

import pytest

from tests.support.generators.yarn_templates import capacity_scheduler, questions
from tests.support.oracles.hadoop.process import BUILD_SECONDS, Hadoop
from tests.support.yarn_template_answers import agrees

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 600)

_ROUNDS: Final = 300


def test_random_files(hadoop: Hadoop) -> None:
    chance = random.Random(1)
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        scheduler, asked = capacity_scheduler(chance), questions(chance)
        create = chance.choice(asked)["queue"]
        answer = hadoop.ask("created", scheduler=scheduler, questions=asked, create=create)
        assert "error" not in answer, f"{answer}\n{scheduler}"
        counts += agrees(scheduler, asked, create, answer)
    assert len(counts) == 5
    assert min(counts.values()) > _ROUNDS // 20, counts
