"""Kubernetes' answers about who may use queues, asked of the compiled RBAC."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.named_grants import KINDS
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from tests.support.generators.rbac import Question
from tests.support.oracles.rbac import answers

CLUSTERS = json.loads(Path("tests/vectors/rbac_vectors.json").read_text())
KIND_BY_LEVEL = {kind.level: kind for kind in KINDS}


@pytest.mark.parametrize("cluster", CLUSTERS, ids=map(str, range(len(CLUSTERS))))
def test_rbac_vectors(cluster: dict[str, Any]) -> None:
    asked = [
        Question(user, tuple(groups), KIND_BY_LEVEL[level], namespace, name)
        for user, groups, level, namespace, name, _ in cluster["questions"]
    ]
    ours = answers(
        json.dumps({"kind": "List", "items": cluster["objects"]}).encode(),
        RbacOptions(**cluster["options"]),
        asked,
    )
    theirs = [allowed for *_, allowed in cluster["questions"]]
    # A question about a name that no path can stand for is refused.
    assert [their for our, their in zip(ours, theirs, strict=True) if our is not None] == [
        our for our in ours if our is not None
    ]


def test_the_vectors_have_both_answers() -> None:
    allowed = [each[-1] for cluster in CLUSTERS for each in cluster["questions"]]
    assert 50 < sum(allowed) < len(allowed) - 50
