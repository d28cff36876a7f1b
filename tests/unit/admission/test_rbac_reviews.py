"""Reviews under Kubernetes' RBAC: whose groups count, with and without prefixes of names."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from queuegate.policy.tree import Policy
from queuegate_server.engine import ServedPartition, Snapshot
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from tests.support.generators.rbac import API
from tests.support.queue_reviews import Reviewing, body
from tests.support.rows import rows
from tests.support.snapshots import groups_from

pytestmark = pytest.mark.usefixtures("no_task_left")
QUEUE = "root.localqueues.team.a"
OIDC = RbacOptions(users_prefix="oidc:", groups_prefix="oidc:")
LOCAL_QUEUES = {"verbs": ["use"], "apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"]}


def reviewing(
    options: RbacOptions,
    subjects: Sequence[dict[str, str]],
    rule: dict[str, list[str]] = LOCAL_QUEUES,
    *queues: dict[str, Any],
    **settings: Any,
) -> Reviewing:
    """Return a reviewer whose RBAC grants a rule, by default all LocalQueues, to these subjects."""
    objects = [
        *queues,
        {
            "apiVersion": f"{API}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "user"},
            "rules": [rule],
        },
        {
            "apiVersion": f"{API}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "team"},
            "roleRef": {"kind": "ClusterRole", "name": "user"},
            "subjects": subjects,
        },
    ]
    text = "\n---\n".join(map(json.dumps, objects)).encode()
    partition, diagnostics = load_rbac(text, "rbac.yaml", options)
    assert partition is not None, diagnostics
    made = Reviewing(**settings)
    served = ServedPartition(partition, groups_from(made.directory), True)
    policy = Policy({"default": partition}, revision=7)
    made.engine.serve(Snapshot(policy, {"default": served}, 0.0))
    return made


@rows
async def test_groups_that_count(
    user: str,
    groups: list[str],
    subject: dict[str, str],
    allowed: bool,
    prefixed: bool,
    asked: list[str],
) -> None:
    """`asked` are the users whose groups are looked up."""
    options = OIDC if prefixed else RbacOptions()
    made = reviewing(options, [subject])
    response = await made.review(user, QUEUE, groups=groups)
    assert response.allowed is allowed
    assert [*made.directory.asked] == asked


async def test_the_setting_counts() -> None:
    subject = {"kind": "Group", "name": "staff"}
    made = reviewing(RbacOptions(), [subject], groups="kubernetes")
    assert not (await made.review("bob", QUEUE)).allowed
    assert made.directory.asked == {}


async def test_audit_records_name_the_binding() -> None:
    made = reviewing(OIDC, [{"kind": "User", "name": "oidc:bob"}])
    assert (await made.review("oidc:bob", QUEUE)).allowed
    [record] = made.audit.records
    assert record["matched_name"] == "oidc:bob"


async def test_a_denied_parent_of_a_quota_has_usable_queues() -> None:
    """Its place is about administration, but RBAC has only one verb."""
    rule = {
        "verbs": ["use"],
        "apiGroups": ["scheduling.sigs.k8s.io"],
        "resources": ["elasticquotas"],
        "resourceNames": ["gold"],
    }
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "gold", "namespace": "koordinator"},
    }
    bob = {"kind": "User", "name": "bob"}
    made = reviewing(RbacOptions(), [bob], rule, quota, schedulers={"koordinator": {}})
    labels = {"quota.scheduling.koordinator.sh/parent": "silver"}
    content = body("bob", {"metadata": {"labels": labels}}, namespace="ml")
    deadline = asyncio.get_running_loop().time() + 5.0
    _, response = await made.reviewer.review(content, verified=True, deadline=deadline)
    assert "bob may not use elasticquotas.scheduling.sigs.k8s.io/silver" in response.message
    assert "Queues you may use: gold" in response.message
