"""Kubernetes' own authorizer code as an oracle for RBAC, and the answers that it has given.

`python -m tests.support.oracles.rbac` records answers in `tests/vectors/rbac_vectors.json` (Go).
"""

import json
import random
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from tests.support import go_toolchain
from tests.support.generators.rbac import Question, RandomCluster

VECTORS: Final = Path("tests/vectors/rbac_vectors.json")
_MODULE: Final = Path("tests/e2e/kube/tools")
_CLUSTERS: Final = 25
_QUESTIONS: Final = 40


def built_oracle(folder: Path) -> Path:
    """Build the oracle into a folder, and return it. Raises GoError."""
    program = folder / "rbac-oracle"
    go_toolchain.run("build", "-o", str(program), "./rbac-oracle", folder=_MODULE.absolute())
    return program


def answers_of(oracle: Path, asked: Sequence[dict[str, Any]]) -> list[list[bool]]:
    """Return Kubernetes' answers to the questions about each cluster."""
    lines = "".join(f"{json.dumps(each)}\n" for each in asked)
    done = subprocess.run([str(oracle)], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def answers(data: bytes, options: RbacOptions, asked: Sequence[Question]) -> list[bool | None]:
    """Return our answers about the objects in a text; None if no path can stand for a queue."""
    partition, diagnostics = load_rbac(data, "cluster", options)
    assert partition is not None, diagnostics
    return [_answer(partition, each.path(options), each) for each in asked]


def _answer(partition: Partition, path: str | None, asked: Question) -> bool | None:
    if path is None:
        return None
    assert partition.canonical_path(path) == path
    groups = partition.counting_groups(asked.user, asked.groups)
    decision = decide(partition, path, Access.SUBMIT, asked.user, groups)
    assert decision is not None
    return decision.allowed


def main() -> None:
    """Record Kubernetes' answers about random clusters."""
    clusters = [RandomCluster(random.Random(seed)) for seed in range(_CLUSTERS)]
    questions = [each.questions(_QUESTIONS) for each in clusters]
    asked = [each.for_oracle(some) for each, some in zip(clusters, questions, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        given = answers_of(built_oracle(Path(folder)), asked)
    lines = [
        json.dumps(
            {
                "options": asdict(cluster.options),
                "objects": cluster.objects,
                "questions": [
                    [each.user, each.groups, each.kind.level, each.namespace, each.name, allowed]
                    for each, allowed in zip(some, allowed_each, strict=True)
                ],
            }
        )
        for cluster, some, allowed_each in zip(clusters, questions, given, strict=True)
    ]
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
