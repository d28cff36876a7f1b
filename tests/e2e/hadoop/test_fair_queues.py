"""Queues that a fair-scheduler.xml declares again: ours against Hadoop's own scheduler."""

import random
from collections import Counter
from typing import Any, Final

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from tests.support.generators.fair_duplicates import PEOPLE, fair_scheduler
from tests.support.oracles.hadoop.process import BUILD_SECONDS, Hadoop

pytestmark = pytest.mark.timeout(BUILD_SECONDS + 600)

_ROUNDS: Final = 600
_OPTIONS: Final = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP))


def test_random_files_with_duplicates(hadoop: Hadoop) -> None:
    chance = random.Random(1)
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        text = fair_scheduler(chance)
        counts[_compared(text, hadoop.ask("fair", scheduler=text, users=PEOPLE))] += 1
    assert set(counts) == {"equal", "fewer queues", "refused"}
    assert min(counts.values()) > _ROUNDS // 20, counts


def _compared(text: str, answer: dict[str, Any]) -> str:
    """Compare our queues and decisions with Hadoop's. Return the kind of result."""
    loaded = load_policy("fair-scheduler", text.encode(), "fs.xml", _OPTIONS)
    assert bool(loaded.partitions) is ("error" not in answer), f"{loaded.diagnostics} {text}"
    if not loaded.partitions:
        assert any("<reservation>" in each.message for each in loaded.diagnostics), text
        return "refused"
    partition = loaded.partitions["default"]
    theirs = answer["queues"]
    assert partition.queues.keys() <= theirs.keys(), text
    for path in partition.queues:
        for user in PEOPLE:
            is_admin = user in theirs[path]["ADMINISTER_QUEUE"]
            may_submit = user in theirs[path]["SUBMIT_APPLICATIONS"] or is_admin
            for access, expected in ((Access.SUBMIT, may_submit), (Access.ADMIN, is_admin)):
                decision = decide(partition, path, access, user, ())
                assert decision, text
                assert decision.allowed is expected, f"{path} {access} {decision} {text}"
    missing = theirs.keys() - partition.queues.keys()
    warned = {each.queue for each in loaded.diagnostics if "may discard" in each.message}
    assert missing <= warned, text
    return "fewer queues" if missing else "equal"
