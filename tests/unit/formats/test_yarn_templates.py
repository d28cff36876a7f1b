"""Templates of queues that the capacity scheduler creates, and what is said about them."""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from queuegate.policy.created_queues import Template
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.names import parent_path
from queuegate.policy.tree import Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.convert import convert
from queuegate_server.formats.yarn.load import YarnOptions, load_scheduler
from tests.support.generators.yarn_templates import capacity_scheduler, questions

MANAGED: Final = {
    "root.managed.auto-create-child-queue.enabled": "true",
    "root.managed.leaf-queue-template.acl_submit_applications": "alice analysts",
    "root.managed.leaf-queue-template.acl_administer_queue": "ops",
}
FLEXIBLE: Final = {"root.flex.auto-queue-creation-v2.enabled": "true"}
V2: Final = "auto-queue-creation-v2"
SUBMIT: Final = "acl_submit_applications"
ADMIN: Final = "acl_administer_queue"


def text(properties: Mapping[str, str]) -> bytes:
    stated = {
        "root.queues": "default,managed,flex",
        f"root.{SUBMIT}": " ",
        f"root.{ADMIN}": " ",
        **properties,
    }
    return (
        b"<configuration>%s</configuration>"
        % "\n".join(
            f"<property><name>{'' if name == 'x' else 'yarn.scheduler.capacity.'}{name}</name>"
            f"<value>{value}</value></property>"
            for name, value in stated.items()
        ).encode()
    )


def load(
    properties: Mapping[str, str], semantics: Semantics = Semantics.HADOOP
) -> tuple[Partition, list[str]]:
    options = FormatOptions(yarn=YarnOptions(semantics=semantics))
    loaded = load_policy("capacity-scheduler", text(properties), "cs.xml", options)
    assert loaded.partitions, loaded.diagnostics
    return loaded.partitions["default"], [str(each) for each in loaded.diagnostics]


def allowed(partition: Partition, queue: str, user: str, access: Access, *groups: str) -> bool:
    decision = decide(partition, queue, access, user, groups)
    assert decision
    return decision.allowed


@pytest.mark.parametrize("semantics", Semantics)
def test_a_managed_parent(semantics: Semantics) -> None:
    partition, diagnostics = load(MANAGED, semantics)
    assert not diagnostics
    assert allowed(partition, "root.managed.x", "alice", Access.SUBMIT)
    assert allowed(partition, "root.managed.x", "eve", Access.SUBMIT, "analysts")
    assert allowed(partition, "root.managed.x", "ops", Access.SUBMIT)
    assert allowed(partition, "root.managed.x", "ops", Access.ADMIN)
    assert not allowed(partition, "root.managed.x", "alice", Access.ADMIN)
    assert not allowed(partition, "root.managed", "alice", Access.SUBMIT)
    assert not allowed(partition, "root.managed.x.y", "alice", Access.SUBMIT)
    assert not allowed(partition, "root.default.x", "alice", Access.SUBMIT)


@pytest.mark.parametrize(
    ("properties", "queue", "users"),
    [
        ({f"root.flex.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x", "ann"),
        # Nobody submits to a parent by a template of leaves, or to a leaf by one of parents.
        ({f"root.flex.{V2}.leaf-template.{SUBMIT}": "ann"}, "root.flex.x.y", ""),
        ({f"root.flex.{V2}.parent-template.{SUBMIT}": "ann"}, "root.flex.x", ""),
        ({f"root.flex.{V2}.parent-template.{SUBMIT}": "ann"}, "root.flex.x.y", "ann"),
        # A template of leaves comes first, also if it is further away.
        (
            {
                f"root.flex.{V2}.template.{SUBMIT}": "ann",
                f"root.*.{V2}.leaf-template.{SUBMIT}": "bob",
            },
            "root.flex.x",
            "bob",
        ),
        # A * stands for the last level of the parent; the path itself comes first.
        ({f"root.*.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x", "ann"),
        ({f"root.flex.*.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x", ""),
        ({f"root.flex.*.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x.y", "ann"),
        ({f"root.*.*.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x.y", "ann"),
        ({f"root.*.x.{V2}.template.{SUBMIT}": "ann"}, "root.flex.x.y", ""),
        (
            {
                f"root.flex.*.{V2}.template.{SUBMIT}": "ann",
                f"root.flex.team.{V2}.template.{SUBMIT}": "bob",
            },
            "root.flex.team.y",
            "bob",
        ),
        # The ACLs of a queue that does not exist do not count.
        (
            {f"root.flex.x.{SUBMIT}": "bob", f"root.flex.{V2}.template.{SUBMIT}": "ann"},
            "root.flex.x",
            "ann",
        ),
        ({f"root.flex.x.{SUBMIT}": "bob"}, "root.flex.x", ""),
        # Two levels are created by default.
        ({f"root.flex.{V2}.parent-template.{SUBMIT}": "ann"}, "root.flex.x.y.z", ""),
        (
            {
                f"root.flex.{V2}.parent-template.{SUBMIT}": "ann",
                f"root.flex.{V2}.maximum-queue-depth": "3",
            },
            "root.flex.x.y.z",
            "ann",
        ),
        (
            {f"root.flex.{V2}.template.{SUBMIT}": "ann", f"{V2}.maximum-queue-depth": "0"},
            "root.flex.x",
            "",
        ),
        # Without room, none is created.
        (
            {f"root.flex.{V2}.template.{SUBMIT}": "ann", f"root.flex.{V2}.max-queues": "0"},
            "root.flex.x",
            "",
        ),
        # Hadoop does not replace variables there.
        ({f"root.flex.{V2}.template.{SUBMIT}": "${x}", "x": "ann"}, "root.flex.x", "${x}"),
        # Not enabled.
        (
            {
                f"root.flex.{V2}.enabled": "yes",
                f"root.flex.{V2}.template.{SUBMIT}": "ann",
            },
            "root.flex.x",
            "",
        ),
    ],
)
def test_templates_of_the_second_version(
    properties: Mapping[str, str], queue: str, users: str
) -> None:
    partition, _ = load({**FLEXIBLE, **properties})
    for user in ("ann", "bob", "${x}"):
        assert allowed(partition, queue, user, Access.SUBMIT) is (user in users.split(",")), user


def test_what_the_queues_above_grant_counts_too() -> None:
    partition, _ = load({**MANAGED, f"root.managed.{ADMIN}": "boss"})
    assert allowed(partition, "root.managed.x", "boss", Access.ADMIN)


def test_a_conversion_says_what_it_leaves_out() -> None:
    result = convert("capacity-scheduler", text(MANAGED), "cs.xml", YarnOptions())
    (lost,) = result.lost
    assert lost.queue == "root.managed"
    assert "the ACLs of leaf-queue-template at root.managed are left out" in lost.message
    assert "alice" not in result.text


def test_templates_without_effect_are_neither_kept_nor_lost() -> None:
    unused = {
        **FLEXIBLE,
        f"root.flex.{V2}.template.{SUBMIT}": "ann",
        f"root.managed.leaf-queue-template.{SUBMIT}": "bob",
        f"root.*.*.*.{V2}.template.{SUBMIT}": "bob",
    }
    partition, _ = load(unused)
    assert partition.creation
    assert [each.path for each in partition.creation.templates] == ["root.flex"]
    result = convert("capacity-scheduler", text(unused), "cs.xml", YarnOptions())
    assert [each.queue for each in result.lost] == ["root.flex"]


@pytest.mark.parametrize(
    ("properties", "parents"),
    [
        (MANAGED, ["managed"]),
        ({**FLEXIBLE, f"root.flex.{V2}.max-queues": "0"}, ["flex"]),
        ({**MANAGED, **FLEXIBLE}, ["managed", "flex"]),
        ({f"root.flex.{V2}.enabled": "false"}, []),
        ({**FLEXIBLE, "root.flex.queues": "a"}, []),
        # A parent whose only child cannot be converted must not become a leaf.
        ({"root.flex.queues": "a b"}, ["flex"]),
    ],
)
def test_parents_without_children_stay_parents(
    properties: Mapping[str, str], parents: list[str]
) -> None:
    result = convert("capacity-scheduler", text(properties), "cs.xml", YarnOptions())
    names = re.findall(r"- name: '(\w+)'\n *parent: true\n", result.text)
    assert names == parents
    assert result.text.count("parent:") == len(parents)
    assert load_policy("yunikorn", result.text.encode(), "queues.yaml").partitions


def test_a_template_that_grants_nothing_loses_nothing() -> None:
    empty = {**FLEXIBLE, f"root.flex.{V2}.template.{SUBMIT}": " "}
    assert not convert("capacity-scheduler", text(empty), "cs.xml", YarnOptions()).lost


def test_a_hostile_file_is_read_in_time() -> None:
    levels = ".".join("a" * 1 for _ in range(199))
    properties = {f"root.{levels}{n}.{V2}.template.{SUBMIT}": "ann" for n in range(2_000)}
    partition, diagnostics = load({**FLEXIBLE, f"{V2}.maximum-queue-depth": "200", **properties})
    assert len(diagnostics) > 1
    below = "root.flex" + ".x" * 20
    assert not allowed(partition, below, "ann", Access.SUBMIT)
    assert len(partition.created(below)) == 20
    assert not partition.created(below + ".x")


@pytest.mark.parametrize("seed", range(100))
def test_templates_without_effect_change_no_queue(seed: int) -> None:
    chance = random.Random(seed)
    data = capacity_scheduler(chance).encode()
    loaded, _ = load_scheduler("capacity-scheduler", data, "cs.xml", YarnOptions())
    assert loaded
    creation = loaded.partition.creation
    if creation is None:
        return
    every = [
        Template(
            each.kind, each.path, each.submit and each.submit.text, each.admin and each.admin.text
        )
        for each in loaded.file.templates.entries
    ]
    whole = replace(creation, templates=tuple(every))
    for question in questions(chance, 100):
        path = above = question["queue"]
        while above not in loaded.partition.queues:
            above = parent_path(above)
        if path != above:
            assert creation.created(path, above) == whole.created(path, above)
