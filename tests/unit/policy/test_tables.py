"""Tables say what the walk over the levels says, whenever they are made and forgotten."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy import tables
from queuegate.policy.acl import EMPTY, parse
from queuegate.policy.decide import decide, walk
from queuegate.policy.decision import Access, Reason
from queuegate.policy.explain import explain
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Cluster, Partition, build_partition
from queuegate.policy.yarn_acl import Semantics
from tests.support.oracles import queue_access
from tests.unit.policy.test_decide import ACCESS, GROUPS, PATHS, TREES, USERS, build, complete

QUESTIONS = st.lists(
    st.tuples(PATHS, ACCESS, USERS, st.one_of(st.none(), GROUPS)), min_size=1, max_size=6
)


@given(TREES, QUESTIONS)
def test_the_first_the_second_and_the_third_answer_are_the_same(
    tree: dict[str, tuple[str, str]],
    asked: list[tuple[str, Access, str, Sequence[str] | None]],
) -> None:
    tree = complete(tree)
    partition = build(tree)
    for path, access, user, groups in asked * 3:
        decision = decide(partition, path, access, user, groups)
        assert decision == walk(partition.nearest(path).chain(access), user, groups)
        assert explain(partition, path, access, user, groups).decision == decision
        if decision is not None and groups is not None:
            assert decision.allowed is queue_access.allowed(tree, path, access, user, groups)
    assert partition.submit_tables.by_path or partition.admin_tables.by_path


def test_the_nearest_group_counts_and_the_first_of_the_user_there() -> None:
    queues = [
        QueueAcls("root", parse(" far"), EMPTY),
        QueueAcls("root.a", parse(" near,nearer"), EMPTY),
    ]
    cluster = Cluster(Semantics.DOCUMENTED, parse("boss wheel"))
    partition = build_partition("default", "", queues, cluster)
    for _ in range(3):
        for groups, queue, subject in (
            (["wheel", "far", "nearer", "near"], "root.a", "nearer"),
            (["x", "wheel", "far"], "root", "far"),
            (["wheel"], "", "wheel"),
        ):
            decision = decide(partition, "root.a", Access.SUBMIT, "alice", groups)
            reason = Reason.GROUP if queue else Reason.CLUSTER_ADMIN
            assert decision == (True, reason, queue, subject)
        assert decide(partition, "root.a", Access.SUBMIT, "boss", None) == (
            True,
            Reason.CLUSTER_ADMIN,
            "",
            "boss",
        )


def many(count: int) -> Partition:
    return build({"root": ("", ""), **{f"root.q{n}": (f"u{n} g{n}", "") for n in range(count)}})


def test_a_decision_is_made_once() -> None:
    partition = many(1)
    first, second = (decide(partition, "root.q0", Access.SUBMIT, "u0", ()) for _ in range(2))
    third, fourth = (decide(partition, "root.q0", Access.SUBMIT, "u0", ()) for _ in range(2))
    assert first == second == third
    assert third is fourth


def test_paths_without_end_below_one_queue_cost_no_other_its_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "_MOST_PATHS", 10)
    partition = many(2)
    before = [decide(partition, "root.q1", Access.SUBMIT, "u1", ()) for _ in range(3)][-1]
    for number in range(50):
        decide(partition, f"root.q0.n{number}", Access.SUBMIT, "u0", ())
    assert decide(partition, "root.q1", Access.SUBMIT, "u1", ()) is before


def names(partition: Partition) -> int:
    kept = {id(table): table for table in partition.submit_tables.by_path.values()}
    return sum(len(table.users) + len(table.groups) for table in kept.values())


def paths(partition: Partition) -> int:
    return len(partition.submit_tables.by_path)


def made(partition: Partition) -> int:
    return len(partition.submit_tables._by_chain)


@pytest.mark.parametrize(
    ("bound", "size"), [("_MOST_PATHS", paths), ("_MOST_NAMES", names), ("_MOST_TABLES", made)]
)
def test_bounds(
    monkeypatch: pytest.MonkeyPatch, bound: str, size: Callable[[Partition], int]
) -> None:
    most = 10
    monkeypatch.setattr(tables, bound, most)
    partition = many(50)
    for _ in range(3):
        for number in range(50):
            for path in (f"root.q{number}", *(f"root.q{number}.n{n}" for n in range(12))):
                for _ in range(3):
                    assert decide(partition, path, Access.SUBMIT, f"u{number}", ()) == (
                        True,
                        Reason.USER,
                        f"root.q{number}",
                        f"u{number}",
                    )
                    assert size(partition) <= most
    assert partition.submit_tables.by_path


def test_what_is_long_gets_no_table() -> None:
    names = ",".join(f"u{number}" for number in range(tables._MOST_NAMES_OF_ONE + 1))
    partition = build({"root": ("", ""), "root.a": (names, ""), "root.b": ("u1", "")})
    for path in ("root.a", "root.b" + ".new" * 100):
        for _ in range(4):
            decision = decide(partition, path, Access.SUBMIT, "u1", None)
            assert decision is not None
            assert decision.allowed
    assert not partition.submit_tables.by_path
