"""Hadoop's `~name`: any user on whose behalf the service `name` acts."""

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import Acl
from queuegate.policy.applications import Action, Application, decide_application
from queuegate.policy.decide import decide, usable
from queuegate.policy.decision import Access, Decision, Reason
from queuegate.policy.explain import StepOutcome, explain
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn
from tests.support.generators.partitions import (
    ACCESS,
    GROUPS,
    REAL_USERS,
    USERS,
    paths_in,
    yarn_partitions,
)
from tests.support.rows import rows


def partition(semantics: Semantics) -> Partition:
    def acl(text: str) -> Acl:
        return parse_yarn(text, semantics)

    queues = [
        QueueAcls("root", acl(" "), acl("~oozie")),
        QueueAcls("root.a", acl("bob,~knox g"), acl(" ")),
        QueueAcls("root.b", acl(" "), acl(" ")),
    ]
    return build_partition("default", "", queues, Cluster(semantics, acl("~hue")))


@rows
def test_a_real_user_in_hadoop(
    user: str, real_user: str, path: str, access: Access, matched: str | None
) -> None:
    tree = partition(Semantics.HADOOP)
    decision = decide(tree, path, access, user, (), real_user=real_user)
    assert decision is not None
    assert decision.allowed is (matched is not None)
    if matched:
        assert decision == (True, Reason.USER, matched, f"~{real_user}")
        # Known without the groups.
        assert decide(tree, path, access, user, None, real_user=real_user) == decision
    explanation = explain(tree, path, access, user, (), real_user=real_user)
    assert explanation.decision == decision
    assert (explanation.steps[-1].outcome is StepOutcome.USER) is decision.allowed
    listed = usable(tree, tree.paths, access, user, (), real_user=real_user)
    assert listed is not None
    if path in tree.queues:
        assert (path in dict(listed)) is decision.allowed
    documented = decide(
        partition(Semantics.DOCUMENTED), path, access, user, (), real_user=real_user
    )
    assert documented is not None
    assert not documented.allowed


@given(yarn_partitions(), st.data(), ACCESS, USERS, st.one_of(st.none(), GROUPS), REAL_USERS)
def test_the_nearest_acl_that_lists_the_service_decides(
    tree: Partition,
    data: st.DataObject,
    access: Access,
    user: str,
    groups: list[str] | None,
    real_user: str,
) -> None:
    """Chains hold the services of the queues that a walk upwards would visit."""
    path = data.draw(paths_in(tree))
    expected = decide(tree, path, access, user, groups)
    if real_user and (expected is None or not expected.allowed):
        for queue in tree.upwards(path):
            acls = (queue.admin_acl, queue.submit_acl)[: 2 if access is Access.SUBMIT else 1]
            if any(real_user in acl.proxies for acl in acls):
                expected = Decision(True, Reason.USER, queue.path, f"~{real_user}")
                break
    assert decide(tree, path, access, user, groups, real_user=real_user) == expected


@rows
def test_a_real_user_and_an_application(
    real_user: str, action: Action, matched: str | None
) -> None:
    app = Application("root.b", "olga", view_acl="~livy")
    judged = decide_application(
        partition(Semantics.HADOOP), app, action, "eve", (), target="root.a", real_user=real_user
    )
    assert judged.decision is not None
    assert judged.decision.allowed is (matched is not None)
    assert judged.decision.matched_subject == ("" if matched is None else f"~{real_user}")
    assert judged.decision.matched_queue == (matched or "")
