"""Kubernetes' own authorizer code and the compiled RBAC, asked the same random questions."""

import random
from pathlib import Path

import pytest

from tests.e2e.kube.cluster import program
from tests.support import go_toolchain
from tests.support.generators.rbac import RandomCluster
from tests.support.oracles.rbac import answers, answers_of, built_oracle

CLUSTERS = 1_000
QUESTIONS = 100
"""For each cluster."""


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if program("kube-apiserver") is None or go_toolchain.installed() is None:
        pytest.skip("no modules of Kubernetes here: `make kube-tools` fetches them (Go, 15 min)")
    return built_oracle(tmp_path_factory.mktemp("oracle"))


@pytest.mark.timeout(go_toolchain.BUILD_SECONDS)
def test_no_answer_differs(oracle: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    allowed = refused = 0
    for _ in range(CLUSTERS // 50):
        clusters = [RandomCluster(chance) for _ in range(50)]
        asked = [each.questions(QUESTIONS) for each in clusters]
        given = answers_of(
            oracle, [each.for_oracle(some) for each, some in zip(clusters, asked, strict=True)]
        )
        for cluster, some, theirs in zip(clusters, asked, given, strict=True):
            ours = answers(cluster.text, cluster.options, some)
            different = [
                (cluster.options, question)
                for question, our, their in zip(some, ours, theirs, strict=True)
                if our is not None and our is not their
            ]
            assert different == []
            allowed += sum(theirs)
            refused += ours.count(None)
    questions = CLUSTERS * QUESTIONS
    assert allowed > questions / 20
    assert refused < questions / 5
