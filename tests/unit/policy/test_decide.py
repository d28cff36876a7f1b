"""Decisions on random trees: against the oracle, and against explanations."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import parse
from queuegate.policy.decide import decide, evaluated_instead, usable
from queuegate.policy.decision import OUTCOMES, Access, Reason
from queuegate.policy.explain import StepOutcome, explain
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from tests.support.oracles import queue_access

ACLS = st.sampled_from(
    ["", " ", "*", " *", "alice", "bob,carol dev", " dev,ops", "alice ops", "*,a", "x:y", "u$ g.h"]
)
LEVELS = st.sampled_from(["a", "b", "@recovery@", "c"])
PATHS = st.lists(LEVELS, max_size=4).map(lambda levels: ".".join(["root", *levels]))
USERS = st.sampled_from(["alice", "bob", "carol", "dave", "*"])
GROUPS = st.lists(st.sampled_from(["dev", "ops", "qa", "*", "g"]), max_size=3, unique=True)
ACCESS = st.sampled_from(list(Access))
TREES = st.dictionaries(PATHS, st.tuples(ACLS, ACLS), max_size=8)


def complete(tree: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Add missing ancestors, and put each queue after its parent."""
    whole = dict(tree)
    for path in tree:
        levels = path.split(".")
        for depth in range(1, len(levels)):
            whole.setdefault(".".join(levels[:depth]), ("", ""))
    return dict(sorted(whole.items()))


def build(tree: dict[str, tuple[str, str]]) -> Partition:
    queues = (
        QueueAcls(path, parse(submit), parse(admin)) for path, (submit, admin) in tree.items()
    )
    return build_partition("default", "", queues)


@given(TREES, PATHS, ACCESS, USERS, GROUPS)
def test_agrees_with_the_oracle(
    tree: dict[str, tuple[str, str]], path: str, access: Access, user: str, groups: Sequence[str]
) -> None:
    tree = complete(tree)
    decision = decide(build(tree), path, access, user, groups)
    assert decision is not None
    assert decision.allowed is queue_access.allowed(tree, path, access, user, groups)
    assert decision.allowed is OUTCOMES[decision.reason].grants


@given(TREES, PATHS, ACCESS, USERS, GROUPS)
def test_groups_are_only_needed_where_they_matter(
    tree: dict[str, tuple[str, str]], path: str, access: Access, user: str, groups: Sequence[str]
) -> None:
    partition = build(complete(tree))
    without = decide(partition, path, access, user, None)
    if without is None:
        assert queue_access.allowed(complete(tree), path, access, user, ["dev", "ops", "g"])
    else:
        assert without == decide(partition, path, access, user, groups)


@given(TREES, PATHS, ACCESS, USERS, st.one_of(st.none(), GROUPS))
def test_explanations_agree_with_decisions(
    tree: dict[str, tuple[str, str]],
    path: str,
    access: Access,
    user: str,
    groups: Sequence[str] | None,
) -> None:
    partition = build(complete(tree))
    explained = explain(partition, path, access, user, groups)
    decision = decide(partition, path, access, user, groups)
    assert explained.decision == decision
    if decision is not None and decision.reason is not Reason.RECOVERY_QUEUE:
        instead = evaluated_instead(partition, path, decision)
        assert explained.evaluated_queue == (instead or path)
        assert bool(instead) is (path not in partition.queues)
    granting = {StepOutcome.WILDCARD, StepOutcome.USER, StepOutcome.GROUP}
    *before, last = explained.steps
    assert not any(step.outcome in granting for step in before)
    if decision is not None and decision.allowed:
        assert last.outcome.value == decision.reason.value
        assert last.queue == decision.matched_queue
        assert last.matched_subject == decision.matched_subject
        assert last.acl is not None
        assert queue_access.AclOracle(last.acl.text).admits(user, groups or ())
    else:
        assert last.outcome not in granting


@given(TREES, ACCESS, USERS, st.one_of(st.none(), GROUPS))
def test_listed_queues_are_those_that_are_granted(
    tree: dict[str, tuple[str, str]], access: Access, user: str, groups: Sequence[str] | None
) -> None:
    partition = build(complete(tree))
    found = usable(partition, partition.paths, access, user, groups)
    decisions = {path: decide(partition, path, access, user, groups) for path in partition.paths}
    if found is None:
        assert None in decisions.values()
    else:
        assert found == [item for item in decisions.items() if item[1] and item[1].allowed]


def test_the_nearest_grant_is_the_one_that_is_named() -> None:
    partition = build({"root": ("*", "boss"), "root.a": ("alice", ""), "root.a.b": (" dev", "")})
    decision = decide(partition, "root.a.b", Access.SUBMIT, "alice", None)
    assert decision == (True, Reason.USER, "root.a", "alice")
    decision = decide(partition, "root.a.b", Access.SUBMIT, "bob", None)
    assert decision == (True, Reason.WILDCARD, "root", "*")


def test_the_first_group_of_the_user_is_named() -> None:
    partition = build({"root": (" dev,ops", "")})
    decision = decide(partition, "root", Access.SUBMIT, "alice", ["qa", "ops", "dev"])
    assert decision == (True, Reason.GROUP, "root", "ops")


def test_nobody_submits_to_the_recovery_queue() -> None:
    tree = {"root": ("*", "*"), "root.@recovery@": ("*", "*"), "root.@recovery@.c": ("kid", "kid")}
    for partition in (build(tree), build({"root": ("*", "*")})):
        for path in ("root.@recovery@", "root.@recovery@.c", "root.@recovery@.c.d"):
            decision = decide(partition, path, Access.SUBMIT, "kid", None)
            assert decision == (False, Reason.RECOVERY_QUEUE, "root.@recovery@", "")
            admin = decide(partition, path, Access.ADMIN, "kid", None)
            assert admin is not None
            assert admin.allowed


def test_a_path_of_a_thousand_levels_is_decided_at_its_nearest_ancestor() -> None:
    partition = build({"root": ("", ""), "root.a": ("alice", "")})
    path = "root.a" + ".b" * 2000
    decision = decide(partition, path, Access.SUBMIT, "alice", ())
    assert decision == (True, Reason.USER, "root.a", "alice")
