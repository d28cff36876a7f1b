"""Names of queues under Kubernetes' RBAC: their paths, and the grants that a denied user lacks."""

from typing import Any

import pytest
import yaml

from queuegate.policy.decision import NO_MATCH, Access
from queuegate.policy.named_grants import NamedGrants
from queuegate.policy.tree import Partition
from queuegate_server.admission.queues import messages
from queuegate_server.admission.queues.missing_grant import MissingGrant
from queuegate_server.admission.queues.model import LOCAL_QUEUES, QueueName, RequiredCheck
from queuegate_server.admission.queues.names import InvalidQueueName, QueueNames
from queuegate_server.admission.queues.rbac_names import queue_names
from queuegate_server.admission.queues.usable_queues import UsableQueues
from queuegate_server.admission.server.webhook_limits import MAX_MESSAGE, MAX_WARNING
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from queuegate_server.settings.queue_schedulers import Mode, Schedulers
from tests.support.rows import rows

SCHEDULERS = Schedulers.model_validate(
    {
        **{name: {} for name in ("kueue", "volcano", "kai", "koordinator")},
        "places": [{"label": "example.com/queue"}],
    }
)
RBAC = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: user}
rules: [{verbs: [use], apiGroups: ["*"], resources: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: team, namespace: ml}
roleRef: {kind: ClusterRole, name: user}
subjects: [{kind: User, name: ann}]
---
{apiVersion: kueue.x-k8s.io/v1, kind: LocalQueue, metadata: {name: a.b, namespace: ml}}
---
{apiVersion: kueue.x-k8s.io/v1, kind: LocalQueue, metadata: {name: other, namespace: web}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: gpu}}
---
{apiVersion: scheduling.sigs.k8s.io/v1, kind: ElasticQuota, metadata: {name: gold, namespace: ml}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: all}
roleRef: {kind: ClusterRole, name: user}
subjects: [{kind: User, name: eve}]
"""


def partition(text: str = RBAC, **options: Any) -> Partition:
    loaded, diagnostics = load_rbac(text.encode(), "rbac.yaml", RbacOptions(**options))
    assert loaded is not None, diagnostics
    return loaded


def names(**options: Any) -> QueueNames:
    return queue_names(partition(**options), SCHEDULERS)


def found(scheduler: str, name: str, template: str = LOCAL_QUEUES) -> QueueName:
    return QueueName(scheduler, name, "x", Access.SUBMIT, template)


@rows
def test_paths(
    scheduler: str, template: str, name: str, namespace: str, path: str, namespaced: str
) -> None:
    """`namespaced` is the path with namespaced_grants."""
    asked = found(scheduler, name, template)
    assert names().path(asked, namespace) == path
    assert names(namespaced_grants=True).path(asked, namespace) == (namespaced or path)


@rows
def test_names_that_no_queue_has(scheduler: str, name: str) -> None:
    with pytest.raises(InvalidQueueName):
        names().path(found(scheduler, name), "ml")


@pytest.mark.parametrize("namespaced_grants", [False, True])
@rows
async def test_usable_queues(
    scheduler: str, namespace: str, user: str, usable: Any, *, namespaced_grants: bool
) -> None:
    """`usable` has the names without and with namespaced_grants, if they differ."""
    if isinstance(usable, dict):
        usable = usable[namespaced_grants]
    place = found(scheduler, "")
    queues = names(namespaced_grants=namespaced_grants)
    answer = await UsableQueues().find(queues, place, namespace, user, [])
    assert [*answer.names] == usable
    for name in usable:
        path = queues.path(place._replace(name=name), namespace)
        decision = queues.partition.chain(path, Access.SUBMIT).decide(user, [])
        assert decision is not None
        assert decision.allowed


GRANTS = NamedGrants(frozenset({"localqueues"}), {})
CHECK = RequiredCheck("kueue", "a", "x", "root.localqueues.ml.a", Access.ADMIN, Mode.DENY)


@rows
def test_what_is_missing(path: str, user: str, text: str, allowed: str, denied: str) -> None:
    """The message names it, and the manifests in the message give it, and nothing else."""
    compiled = partition("{apiVersion: kueue.x-k8s.io/v1, kind: Cohort, metadata: {name: a}}")
    assert compiled.named_grants is not None
    grant = MissingGrant.of(path, user, compiled.named_grants)
    assert grant is not None
    message = messages.denial(user, CHECK._replace(path=path), NO_MATCH, grant=grant)
    assert message.startswith(
        f"{user} may not {text} (set in x): no binding grants it to {user} or"
    )
    explained, _, manifests = message.partition("\nThis would grant it:\n")
    assert "--access" not in explained
    granted = partition(manifests)
    for each, is_allowed in ((allowed, True), (denied, False)):
        decision = granted.chain(each, Access.SUBMIT).decide(user, [])
        assert decision is not None
        assert decision.allowed is is_allowed
    other = granted.chain(allowed, Access.SUBMIT).decide("other", [])
    assert other is not None
    assert not other.allowed


@pytest.mark.parametrize("user", ["x" * 253, "a: b}, {c", '"', "\u2028", "[", "a/b%c", "*", "- "])
def test_names_of_users_are_quoted(user: str) -> None:
    grant = MissingGrant.of(CHECK.path, user, GRANTS)
    assert grant is not None
    message = messages.denial(user, CHECK, NO_MATCH, grant=grant)
    manifests = message.partition("\nThis would grant it:\n")[2]
    role, binding = yaml.safe_load_all(manifests)
    assert binding["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    ]
    assert role["rules"][0]["resourceNames"] == ["a"]
    assert not {"/", "%"}.intersection(binding["metadata"]["name"])
    assert len(message) < MAX_MESSAGE


def test_no_two_bindings_have_one_name() -> None:
    cases = [("a", "b-c"), ("a-b", "c"), ("a", "x/y"), ("a", "x-y"), ("a", "x%y"), ("a", "y" * 300)]
    names = []
    for queue, user in cases:
        grant = MissingGrant.of(f"root.localqueues.ml.{queue}", user, GRANTS)
        assert grant is not None
        _, binding = yaml.safe_load_all(grant.manifests())
        names.append(binding["metadata"]["name"])
    assert len({*names}) == len(cases)


def test_the_command_names_users_as_callers_do() -> None:
    grants = NamedGrants(frozenset({"localqueues"}), {}, users_prefix="oidc:")
    hints = {}
    for user in ("oidc:bob", "kubernetes-admin", "system:serviceaccount:a:b", "oidc:system:x"):
        grant = MissingGrant.of(CHECK.path, user, grants)
        message = messages.denial(user, CHECK, NO_MATCH, grant=grant)
        hints[user] = message.partition("\n")[0].partition("To see why: ")[2]
    assert hints == {
        "oidc:bob": "queuegate explain bob root.localqueues.ml.a",
        "kubernetes-admin": "",
        "system:serviceaccount:a:b": (
            "queuegate explain system:serviceaccount:a:b root.localqueues.ml.a"
        ),
        "oidc:system:x": "",
    }


def test_a_warning_is_short() -> None:
    grant = MissingGrant.of(CHECK.path, "ann", GRANTS)
    warning = messages.denial_warning("ann", CHECK, NO_MATCH, grant=grant)
    assert warning == (
        "ann may not use localqueues.kueue.x-k8s.io/a in ml (set in x): no binding grants it to ann"
        " or ann's groups. To see why: queuegate explain ann root.localqueues.ml.a"
    )
    assert len(warning) <= MAX_WARNING


def test_no_kind() -> None:
    assert MissingGrant.of("root", "ann", GRANTS) is None
