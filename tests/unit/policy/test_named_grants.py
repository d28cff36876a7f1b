"""Paths of Kubernetes' queues, and the groups that count for a user."""

import pytest

from queuegate.policy.named_grants import (
    KINDS,
    MASTERS,
    NamedGrants,
    counting_groups,
    has_only_own_groups,
    level_of,
)
from tests.support.rows import rows

GRANTS = NamedGrants(frozenset({"localqueues", "kai-queues"}), {})


def test_no_two_kinds_share_a_level_or_a_resource() -> None:
    assert len({kind.level for kind in KINDS}) == len(KINDS)
    assert len({(kind.group, kind.resource) for kind in KINDS}) == len(KINDS)


@rows
def test_level(name: str, level: str | None) -> None:
    assert level_of(name) == level


def test_no_two_names_share_a_level() -> None:
    names = ["a.b", "a_dot_b", "a-dot-b", "a..b", "A.B", "a.b.", ".a.b"]
    levels = [level for name in names if (level := level_of(name)) is not None]
    assert len({*levels}) == len(levels)


@rows
def test_path(text: str, is_path: bool) -> None:
    assert GRANTS.canonical_path(text) == (text if is_path else None)


@rows
def test_groups(user: str, groups: list[str], counting: list[str]) -> None:
    assert [*counting_groups(user, groups)] == counting


@pytest.mark.parametrize("user", ["ann", "system:serviceaccount:ml:runner", "system:anonymous"])
def test_nobody_asserts_a_group_of_the_system(user: str) -> None:
    assert MASTERS not in counting_groups(user, [MASTERS, "dev"])


def test_names_with_a_prefix() -> None:
    grants = NamedGrants(frozenset(), {}, users_prefix="oidc:", groups_prefix="idp:")
    assert grants.user("ann") == "oidc:ann"
    assert grants.user("system:kube-scheduler") == "system:kube-scheduler"
    groups = counting_groups("oidc:ann", ["dev", MASTERS], grants.groups_prefix)
    assert groups == ("system:authenticated", "idp:dev")
    for user in ("ann", "system:kube-scheduler"):
        assert has_only_own_groups(user, "oidc:")
    assert not has_only_own_groups("oidc:ann", "oidc:")


def test_a_directory_is_asked_only_about_people() -> None:
    assert has_only_own_groups("system:serviceaccount:ml:runner")
    assert not has_only_own_groups("ann")
    assert not has_only_own_groups("system:kube-scheduler")
