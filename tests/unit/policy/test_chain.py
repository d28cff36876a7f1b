"""An evaluation says the same with an index, without one, and while indexes come and go."""

import gc
import weakref
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy import chain
from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import explain
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics
from tests.support.oracles import queue_access
from tests.unit.policy.test_decide import ACCESS, GROUPS, PATHS, TREES, USERS, build, complete

QUESTIONS = st.lists(
    st.tuples(PATHS, ACCESS, USERS, st.one_of(st.none(), GROUPS)), min_size=1, max_size=6
)


@pytest.fixture(autouse=True)
def _indexes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "MISSES_PER_INDEX", 1)


@given(TREES, QUESTIONS, st.integers(0, 20), st.integers(0, 40))
def test_an_index_changes_no_decision(
    tree: dict[str, tuple[str, str]],
    asked: list[tuple[str, Access, str, Sequence[str] | None]],
    most: int,
    of_all: int,
) -> None:
    tree = complete(tree)
    indexed, bounded, plain = build(tree), build(tree), build(tree)
    for path, access, user, groups in asked * 2:
        decision = decide(indexed, path, access, user, groups)
        with patch.object(chain, "MAX_INDEX_NAMES", 0):
            assert decide(plain, path, access, user, groups) == decision
        with (
            patch.object(chain, "MAX_INDEX_NAMES", most),
            patch.object(chain, "MAX_INDEXED_NAMES", of_all),
        ):
            assert decide(bounded, path, access, user, groups) == decision
        assert explain(indexed, path, access, user, groups).decision == decision
        if decision is not None and groups is not None:
            assert decision.allowed is queue_access.allowed(tree, path, access, user, groups)


@pytest.mark.parametrize("most", [0, 2_000])
def test_the_nearest_group_counts_and_the_first_of_the_user_there(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "MAX_INDEX_NAMES", most)
    queues = [
        QueueAcls("root", parse(" far"), EMPTY),
        QueueAcls("root.a", parse(" near,nearer"), EMPTY),
        QueueAcls("root.a.leaf", parse(" leaf"), EMPTY),
    ]
    cluster = Cluster(Semantics.DOCUMENTED, parse("boss wheel"))
    partition = build_partition("default", "", queues, cluster)
    for path in ("root.a", "root.a.leaf"):
        for groups, queue, subject in (
            (["wheel", "far", "nearer", "near"], "root.a", "nearer"),
            (["x", "wheel", "far"], "root", "far"),
            (["wheel"], "", "wheel"),
        ):
            decision = decide(partition, path, Access.SUBMIT, "alice", groups)
            reason = Reason.GROUP if queue else Reason.CLUSTER_ADMIN
            assert decision == (True, reason, queue, subject)
        assert decide(partition, path, Access.SUBMIT, "boss", None) == (
            True,
            Reason.CLUSTER_ADMIN,
            "",
            "boss",
        )


def wide(queues: int) -> Partition:
    """Return queues with a child each, all of which list names."""
    tree = {"root": ("", "")}
    for number in range(queues):
        tree[f"root.q{number}"] = (f"u{number} g{number}", "")
        tree[f"root.q{number}.leaf"] = ("leaf", "")
    return build(tree)


def indexed_names(partition: Partition) -> int:
    chains = {partition.chain(path, Access.SUBMIT) for path in partition.paths}
    return sum(each.size for each in chains if each.index is not None)


def test_siblings_share_the_index_of_the_queue_above() -> None:
    partition = build({"root": ("a", ""), "root.b": ("b", ""), "root.b.c": ("c", "")})
    decide(partition, "root.b.c", Access.SUBMIT, "x", ())
    leaf = partition.chain("root.b.c", Access.SUBMIT)
    assert leaf.index is None
    assert leaf.above.index == ({"a": "root", "b": "root.b"}, {})
    assert leaf.above is partition.chain("root.b", Access.SUBMIT)
    decide(partition, "root.b.c", Access.SUBMIT, "x", ())
    assert leaf.index == ({"a": "root", "b": "root.b", "c": "root.b.c"}, {})


def test_an_index_is_built_after_some_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "MISSES_PER_INDEX", 3)
    partition = build({"root": ("a b", "")})
    for expected in (0, 0, 2, 2):
        decide(partition, "root", Access.SUBMIT, "x", ())
        assert indexed_names(partition) == expected


def test_indexes_are_bounded_and_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 10
    monkeypatch.setattr(chain, "MAX_INDEXED_NAMES", most)
    partition = wide(50)
    for _ in range(2):
        for number in range(50):
            path = f"root.q{number}.leaf"
            decision = decide(partition, path, Access.SUBMIT, "x", ["y"])
            assert decision == (False, Reason.NO_MATCH, "", "")
            assert 0 < indexed_names(partition) <= most
            level = partition.chain(path, Access.SUBMIT).above
            assert level.index == ({f"u{number}": level.queue}, {f"g{number}": level.queue})


def test_a_level_of_very_many_names_gets_no_index() -> None:
    names = ",".join(f"u{number}" for number in range(chain.MAX_INDEX_NAMES + 1))
    partition = build({"root": (names, ""), "root.a": ("b", ""), "root.a.b": ("c", "")})
    for _ in range(3):
        decision = decide(partition, "root.a.b", Access.SUBMIT, "u1", None)
        assert decision == (True, Reason.USER, "root", "u1")
    assert indexed_names(partition) == 0


def test_a_partition_without_users_is_freed_at_once() -> None:
    partition = wide(3)
    for path in partition.paths:
        decide(partition, path, Access.SUBMIT, "x", ["y"])
    reference = weakref.ref(partition.chain("root.q1", Access.SUBMIT))
    gc.disable()
    try:
        del partition
        assert reference() is None
    finally:
        gc.enable()


def test_one_list_is_shared() -> None:
    acl = parse("alice,bob devs,ops")
    partition = build_partition("default", "", [QueueAcls("root", acl, EMPTY)])
    chain = partition.chain("root", Access.SUBMIT)
    assert chain.users is acl.users
    assert chain.groups is acl.groups
