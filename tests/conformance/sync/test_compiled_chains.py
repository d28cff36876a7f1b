"""A gate decides from compiled chains as the server does from the ACLs."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.decide import usable
from queuegate.policy.decision import Access
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.engine import ServedPartition
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.sync import compiler
from tests.support import gate_vectors
from tests.support.compiled_policies import local_partition, received
from tests.support.gate_differences import askers, differences
from tests.support.generators import yarn_templates
from tests.support.generators.partitions import (
    ACCESS,
    GROUPS,
    PARTITIONS,
    PATHS,
    REAL_USERS,
    USERS,
)
from tests.support.snapshots import groups_named_as_users
from tests.support.yarn_layer_answers import QUESTIONS
from tests.support.yarn_vectors import VECTORS, loaded, readings

VECTOR_FILES: Final = Path("tests/vectors")
DOCUMENTS: Final = json.loads((VECTOR_FILES / "queue_vectors.json").read_text())["documents"]
TEMPLATES: Final = json.loads((VECTOR_FILES / "yarn_template_vectors.json").read_text())
LAYERS: Final = json.loads((VECTOR_FILES / "yarn_layer_vectors.json").read_text())
CHECKS: Final = [
    (vector["input"], semantics)
    for vector in VECTORS
    if vector["dialect"] in {"fair-scheduler", "capacity-scheduler"}
    and vector["input"]["op"] == "check"
    for semantics, _ in readings(vector)
]
HADOOP: Final = YarnOptions(semantics=Semantics.HADOOP)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["id"])
def test_vectors_of_yunikorn(document: dict[str, Any]) -> None:
    policy = load_policy("yunikorn", document["yaml"].encode(), "queues.yaml")
    for partition in policy.partitions.values():
        gate = local_partition(partition)
        for asked in document["questions"]:
            path = partition.canonical_path(asked["queue"])
            assert path is not None
            assert gate.canonical_path(asked["queue"]) == path
            person = (asked["user"], asked["groups"])
            assert differences(partition, gate, [path], askers(person)) == (2, [])


@pytest.mark.parametrize("number", range(len(CHECKS)))
def test_vectors_of_yarn(number: int) -> None:
    asked, semantics = CHECKS[number]
    partition = loaded(asked, semantics).partitions["default"]
    gate = local_partition(partition)
    path = partition.canonical_path(asked["queue"])
    assert path is not None
    assert gate.canonical_path(asked["queue"]) == path
    person = (asked["user"], asked["groups"])
    assert differences(partition, gate, [path], askers(person)) == (2, [])


@pytest.mark.parametrize("number", range(len(LAYERS)))
def test_vectors_of_yarn_with_two_files(number: int) -> None:
    vector = LAYERS[number]
    site = (vector["site"].encode(), "yarn-site.xml")
    options = FormatOptions(yarn=YarnOptions(semantics=Semantics.HADOOP, site=site))
    text = vector["scheduler"].encode()
    for partition in load_policy("capacity-scheduler", text, "cs.xml", options).partitions.values():
        gate = local_partition(partition)
        people = askers(*((each["user"], each["groups"]) for each in QUESTIONS))
        paths = [*partition.paths, *(each["queue"] for each in QUESTIONS)]
        assert differences(partition, gate, paths, people)[1] == []


@pytest.mark.parametrize("number", range(len(TEMPLATES)))
def test_vectors_of_queues_that_will_be_created(number: int) -> None:
    vector = TEMPLATES[number]
    text = vector["scheduler"].encode()
    loaded_policy = load_policy("capacity-scheduler", text, "cs.xml", FormatOptions(yarn=HADOOP))
    partition = loaded_policy.partitions["default"]
    gate = local_partition(partition)
    for asked in vector["questions"]:
        people = askers((asked["user"], asked["groups"]))
        decided, different = differences(partition, gate, [asked["queue"]], people)
        assert different == []
        if partition.creates(asked["queue"]):
            assert decided == 2


@pytest.mark.parametrize("seed", range(60))
def test_random_queues_that_will_be_created(seed: int) -> None:
    chance = random.Random(seed)
    text = yarn_templates.capacity_scheduler(chance).encode()
    loaded_policy = load_policy("capacity-scheduler", text, "cs.xml", FormatOptions(yarn=HADOOP))
    partition = loaded_policy.partitions["default"]
    gate = local_partition(partition)
    asked = {each["queue"] for each in yarn_templates.questions(chance, 60)}
    asked |= {*partition.paths, *partition.created_below("root")}
    asked |= {f"{path}.zz" for path in asked}
    people = askers(*yarn_templates.PEOPLE)
    for path in sorted(asked):
        decided, different = differences(partition, gate, [path], people)
        assert different == []
        # A gate asks about what may be created, and no more.
        if path in partition.queues or partition.creates(path):
            assert decided == 2, path


def test_very_many_queues_that_might_be_created_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "MAX_PATTERNS", 1)
    chance = random.Random(3)
    text = yarn_templates.capacity_scheduler(chance).encode()
    loaded_policy = load_policy("capacity-scheduler", text, "cs.xml", FormatOptions(yarn=HADOOP))
    partition = loaded_policy.partitions["default"]
    gate = local_partition(partition)
    created = [each["queue"] for each in yarn_templates.questions(chance, 60)]
    assert any(map(partition.creates, created))
    for path in created:
        if partition.creates(path):
            assert gate.target(path, Access.SUBMIT) is None
    people = askers(*yarn_templates.PEOPLE)
    decided, different = differences(partition, gate, partition.paths, people)
    assert (decided, different) == (2 * len(partition.paths), [])


async def test_queues_that_will_be_created_in_several_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler, "_STEP_QUEUES", 2)
    monkeypatch.setattr(compiler, "MAX_PART_BYTES", 100)
    chance = random.Random(2)
    text = yarn_templates.capacity_scheduler(chance).encode()
    loaded_policy = load_policy("capacity-scheduler", text, "cs.xml", FormatOptions(yarn=HADOOP))
    partition = loaded_policy.partitions["default"]
    served = ServedPartition(partition, groups_named_as_users(), True)
    parts = (await compiler._ship(served, 1)).parts
    assert [bool(part.policy.created_queues.name) for part in parts].count(True) > 1
    gate = received(part.policy for part in parts)
    created = [each for each in partition.created_below("root") if partition.creates(each)]
    people = askers(*yarn_templates.PEOPLE)
    assert differences(partition, gate, created, people) == (2 * len(created), [])


@given(
    PARTITIONS,
    st.lists(PATHS, max_size=6),
    st.lists(st.tuples(USERS, st.one_of(st.none(), GROUPS), REAL_USERS), max_size=4),
)
def test_random_policies(
    partition: Partition,
    asked: list[str],
    people: list[tuple[str, Sequence[str] | None, str]],
) -> None:
    gate = local_partition(partition)
    texts = {*asked, *partition.paths, "a", "b", "c", "x", "root", "A.b", "root.A", "", ".", "a..b"}
    paths = {gate.canonical_path(text) for text in texts}
    assert {text: gate.canonical_path(text) for text in texts} == {
        text: partition.canonical_path(text) for text in texts
    }
    known = sorted(path for path in paths if path)
    assert differences(partition, gate, known, people) == (2 * len(known), [])
    assert tuple(gate.paths) == partition.paths
    for user in ("ann", "x:y", "*", "a b", "9d"):
        assert gate.accepts_user(user) is partition.accepts_user(user)


@given(PARTITIONS, ACCESS, USERS, GROUPS, REAL_USERS)
def test_lists_of_queues(
    partition: Partition, access: Access, user: str, groups: Sequence[str], real_user: str
) -> None:
    gate = local_partition(partition)
    assert usable(gate, gate.paths, access, user, groups, real_user=real_user) == usable(
        partition, partition.paths, access, user, groups, real_user=real_user
    )


def test_the_vectors_for_gates_in_other_languages_are_current() -> None:
    """`python -m tests.support.gate_vectors` writes them."""
    assert gate_vectors.FILE.read_text() == gate_vectors.vectors()
