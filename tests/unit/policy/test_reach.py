"""Effective ACLs: against decisions on random policies, and the grants that they name."""

from collections.abc import Sequence
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from queuegate.policy.acl import parse
from queuegate.policy.decide import decide, usable
from queuegate.policy.decision import Access
from queuegate.policy.names import is_at_or_below
from queuegate.policy.queue import QueueAcls
from queuegate.policy.reach import (
    Grant,
    SubjectKind,
    effective_acl,
    grant_of,
    who_can,
)
from queuegate.policy.tree import Partition, build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics, parse_yarn
from tests.support.generators.partitions import (
    ACCESS,
    GROUP_NAMES,
    GROUPS,
    PARTITIONS,
    REAL_USERS,
    USERS,
    paths_in,
)


def is_real(partition: Partition, grant: Grant) -> bool:
    """Whether the ACL that a grant names lists its name."""
    if grant.acl is None:
        return partition.cluster is not None and not partition.cluster.acls_enabled
    if grant.queue == "":
        assert partition.cluster is not None
        acl = partition.cluster.admins
    else:
        queue = partition.queues[grant.queue]
        acl = queue.submit_acl if grant.acl is Access.SUBMIT else queue.admin_acl
    return {
        SubjectKind.EVERYONE: acl.allows_all and grant.name == "*",
        SubjectKind.USER: grant.name in acl.users,
        SubjectKind.GROUP: grant.name in acl.groups,
        SubjectKind.PROXY: grant.name in acl.proxies,
    }[grant.kind]


@given(st.data(), PARTITIONS, ACCESS, USERS, GROUPS, REAL_USERS)
def test_agrees_with_decisions(
    data: st.DataObject,
    partition: Partition,
    access: Access,
    user: str,
    groups: Sequence[str],
    real_user: str,
) -> None:
    path = data.draw(paths_in(partition))
    found = effective_acl(partition, path, access)
    decision = decide(partition, path, access, user, groups, real_user=real_user)
    assert decision is not None
    assert found.allows(user, groups, real_user) is decision.allowed
    if decision.allowed:
        assert is_real(partition, grant_of(partition, path, access, decision, user))


@given(st.data(), PARTITIONS, ACCESS)
def test_every_grant_names_an_acl_that_lists_its_name(
    data: st.DataObject, partition: Partition, access: Access
) -> None:
    path = data.draw(paths_in(partition))
    for grant in effective_acl(partition, path, access).grants():
        assert is_real(partition, grant)
        groups = [grant.name] if grant.kind is SubjectKind.GROUP else []
        user = grant.name if grant.kind is SubjectKind.USER else "nobody-else"
        real_user = grant.name if grant.kind is SubjectKind.PROXY else ""
        decision = decide(partition, path, access, user, groups, real_user=real_user)
        assert decision is not None
        assert decision.allowed


@given(st.data(), PARTITIONS, ACCESS)
def test_who_can_is_everyone_whom_a_check_lets_in(
    data: st.DataObject, partition: Partition, access: Access
) -> None:
    path = data.draw(paths_in(partition))
    people = {
        f"{name}-{'-'.join(groups)}": groups
        for groups in chain.from_iterable(combinations(GROUP_NAMES, size) for size in range(3))
        for name in ("u", "v")
    } | dict.fromkeys(("ann", "bob", "cem", "u$"), ())
    members = {
        group: [user for user, groups in people.items() if group in groups] for group in GROUP_NAMES
    }
    found = who_can(effective_acl(partition, path, access), members)
    for user, groups in people.items():
        decision = decide(partition, path, access, user, groups)
        assert decision is not None
        assert decision.allowed is (found.everyone is not None or user in found.users)
    assert all(is_real(partition, each) for grants in found.users.values() for each in grants)
    assert not {each.name for each in found.unexpanded} & {*GROUP_NAMES}


@given(PARTITIONS, ACCESS, USERS, GROUPS, REAL_USERS)
def test_usable_queues_with_their_grants(
    partition: Partition, access: Access, user: str, groups: Sequence[str], real_user: str
) -> None:
    found = usable(partition, partition.paths, access, user, groups, real_user=real_user)
    assert found is not None
    for path, decision in found:
        assert decision == decide(partition, path, access, user, groups, real_user=real_user)
        grant = grant_of(partition, path, access, decision, user)
        assert is_real(partition, grant)
        assert is_at_or_below(path, grant.queue or "root")


def test_the_nearest_acl_is_named_and_the_submit_acl_before_the_admin_acl() -> None:
    partition = build_partition(
        "default",
        "",
        [
            QueueAcls("root", parse("sue"), parse("sue top")),
            QueueAcls("root.a", parse("bob dev"), parse("bob,ann dev,ops")),
        ],
    )
    assert [*effective_acl(partition, "root.a.new", Access.SUBMIT).grants()] == [
        Grant("root.a", Access.ADMIN, SubjectKind.USER, "ann"),
        Grant("root.a", Access.SUBMIT, SubjectKind.USER, "bob"),
        Grant("root", Access.SUBMIT, SubjectKind.USER, "sue"),
        Grant("root.a", Access.SUBMIT, SubjectKind.GROUP, "dev"),
        Grant("root.a", Access.ADMIN, SubjectKind.GROUP, "ops"),
        Grant("root", Access.ADMIN, SubjectKind.GROUP, "top"),
    ]
    found = who_can(effective_acl(partition, "root.a", Access.ADMIN), {"dev": ["sue", "eve"]})
    assert {user: [each.name for each in grants] for user, grants in found.users.items()} == {
        "ann": ["ann"],
        "bob": ["bob"],
        "sue": ["sue", "dev"],
        "eve": ["dev"],
    }
    assert [each.name for each in found.unexpanded] == ["top", "ops"]
    assert [*effective_acl(partition, "root.@recovery@.x", Access.SUBMIT).grants()] == []


def test_clusters_of_yarn() -> None:
    def cluster(admins: str, *, enabled: bool = True) -> Partition:
        hadoop = Semantics.HADOOP
        queues = [QueueAcls("root", parse_yarn("~hue", hadoop), parse_yarn(" ", hadoop))]
        acl = parse_yarn(admins, Semantics.DOCUMENTED)
        return build_partition(
            "default", "", queues, Cluster(Semantics.DOCUMENTED, acl, acls_enabled=enabled)
        )

    root = effective_acl(cluster("ann ops"), "root", Access.SUBMIT)
    assert [*root.grants()] == [
        Grant("", Access.ADMIN, SubjectKind.USER, "ann"),
        Grant("", Access.ADMIN, SubjectKind.GROUP, "ops"),
        Grant("root", Access.SUBMIT, SubjectKind.PROXY, "hue"),
    ]
    assert [each.name for each in who_can(root, {}).proxies] == ["hue"]
    everyone = effective_acl(cluster("*"), "root", Access.ADMIN).everyone
    assert everyone == Grant("", Access.ADMIN, SubjectKind.EVERYONE, "*")
    disabled = effective_acl(cluster(" ", enabled=False), "root", Access.ADMIN).everyone
    assert disabled == Grant("", None, SubjectKind.EVERYONE, "*")
