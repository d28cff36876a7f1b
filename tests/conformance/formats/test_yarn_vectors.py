"""The vectors about the files of YARN's schedulers, in both semantics."""

import json
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import build_partition
from queuegate.policy.yarn_acl import Semantics, parse_yarn
from queuegate_server.formats.registry import load_policy
from tests.support.yarn_vectors import VECTORS, loaded, readings

CHECKS = [
    pytest.param(vector, semantics, expect, id=f"{vector['id']}-{semantics}")
    for vector in VECTORS
    if vector["dialect"] in {"fair-scheduler", "capacity-scheduler"}
    and vector["input"]["op"] == "check"
    for semantics, expect in readings(vector)
]
LOADS = [vector for vector in VECTORS if vector["input"]["op"] == "load"]


@pytest.mark.parametrize(("vector", "semantics", "expect"), CHECKS)
def test_checks(vector: dict[str, Any], semantics: Semantics, expect: dict[str, Any]) -> None:
    asked = vector["input"]
    partition = loaded(asked, semantics).partitions["default"]
    path = partition.canonical_path(asked["queue"])
    assert path is not None
    if asked["action"] == "SUBMIT_APPLICATIONS":
        # The submit ACL by itself, which no call of ours asks for.
        alone = [
            QueueAcls(queue.path, queue.submit_acl, parse_yarn(" ", semantics))
            for queue in partition.queues.values()
        ]
        partition = build_partition("default", "", alone, partition.cluster)
    access = Access.ADMIN if asked["action"] == "ADMINISTER_QUEUE" else Access.SUBMIT
    decision = decide(partition, path, access, asked["user"], asked["groups"])
    assert decision is not None
    assert decision.allowed is expect["allowed"]


@pytest.mark.parametrize("vector", LOADS, ids=lambda vector: vector["id"])
def test_loads(vector: dict[str, Any]) -> None:
    text = vector["input"]["xml"].encode()
    found = load_policy("fair-scheduler", text, "fair-scheduler.xml")
    if "error" in vector["expect"]:
        assert not found.partitions
        assert all(
            diagnostic.line and diagnostic.column and diagnostic.remedy
            for diagnostic in found.diagnostics
        )
        return
    queues = found.partitions["default"].queues
    expected = vector["expect"]["queues"]
    assert set(queues) == {"root", *(queue["name"] for queue in expected)}
    for queue in expected:
        if "submit" in queue:
            assert queues[queue["name"]].submit_acl.text == queue["submit"]
        else:
            acl = parse_yarn(queues[queue["name"]].submit_acl.text, Semantics.HADOOP)
            assert acl.groups == set(queue["submit_parsed"]["groups"])
            assert not acl.users
        assert queues[queue["name"]].admin_acl.text == queue["administer"]


def test_there_are_vectors_of_each_kind() -> None:
    assert len(CHECKS) > 60
    assert len(LOADS) == 12
    assert len(json.loads(Path("tests/vectors/yarn_vectors.json").read_text())) == 168
