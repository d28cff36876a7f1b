"""What yarn-site.xml and capacity-scheduler.xml set together: ours against Hadoop's own classes."""

import random
import re
from collections import Counter
from typing import Final

import pytest

from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.yarn.properties import Configuration
from queuegate_server.formats.yarn.variables import ExpansionBudget, VariableError
from tests.support.generators.yarn_layers import NAMES, layers
from tests.support.oracles.hadoop.process import BUILD_SECONDS, Hadoop
from tests.support.yarn_layer_answers import QUESTIONS, agrees

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 300)

_ROUNDS: Final = 500
_DEFAULTS: Final = {"yarn.acl.enable": "false", "yarn.admin.acl": "*"}
"""The values in yarn-default.xml."""
_VARIABLE: Final = re.compile(r"\$\{[^}$ ]+\}")


def test_random_layers(hadoop: Hadoop) -> None:
    chance = random.Random(1)
    names = [name for name in NAMES if name]
    counts: Counter[str] = Counter()
    for number in range(_ROUNDS):
        texts = layers(chance)
        answer = hadoop.ask("values", site=texts[0], scheduler=texts[1], names=names)
        configuration = Configuration()
        for text, level in zip(texts, ("site", "scheduler"), strict=True):
            diagnostics = Diagnostics(level)
            assert configuration.add(text.encode(), diagnostics, is_read=lambda _: True)
            assert not diagnostics.error_count
            for name in names:
                expected = answer[level][name]
                said = f"round {number}, {level}, {name}:\n{texts[0]}{texts[1]}"
                try:
                    value = configuration.expand(name, ExpansionBudget())
                except KeyError:
                    assert expected == _DEFAULTS.get(name), said
                    counts["not set"] += 1
                except VariableError:
                    # Hadoop refuses it, or leaves a variable in it, whose value nobody states.
                    assert isinstance(expected, dict) or _VARIABLE.search(expected), said
                    counts["refused"] += 1
                else:
                    assert value == expected, said
                    counts["equal"] += 1
    assert min(counts.values()) > _ROUNDS // 4, counts
    assert len(counts) == 3


def test_random_queues(hadoop: Hadoop) -> None:
    chance = random.Random(2)
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        site, scheduler = layers(chance)
        answer = hadoop.ask("queues", site=site, scheduler=scheduler, questions=QUESTIONS)
        counts[agrees(site, scheduler, answer)] += 1
    assert set(counts) == {"enforced", "not enforced", "refused"}
    assert min(counts.values()) > _ROUNDS // 20, counts
