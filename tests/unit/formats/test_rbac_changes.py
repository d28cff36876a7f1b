"""Changes of a cluster's objects: what follows them equals what reads all of them again."""

import gc
import itertools
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from queuegate.policy.acl import Acl
from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.named_grants import KINDS
from queuegate.policy.names import parent_path
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition
from queuegate_server.formats.kubernetes_rbac import grants, load
from queuegate_server.formats.kubernetes_rbac.compiler import (
    ObjectChanges,
    RbacCompiler,
    compile_objects,
)
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions, TooManyGrants
from queuegate_server.formats.kubernetes_rbac.load import load_rbac, read_objects
from queuegate_server.formats.kubernetes_rbac.objects import (
    At,
    Binding,
    Objects,
    QueueObject,
    RbacRole,
    Rule,
    Subject,
)
from tests.support.generators.rbac import RandomCluster

CHANGES = 1_000
AT = At(0, 0, "")
LOCAL_QUEUES = next(kind for kind in KINDS if kind.level == "localqueues")


def content(partition: Partition) -> dict[str, Any]:
    assert partition.named_grants is not None
    named = partition.named_grants.acls
    return {
        "queues": {path: _acl(queue.submit_acl) for path, queue in partition.queues.items()},
        "admin": {path for path, queue in partition.queues.items() if queue.admin_acl.users},
        "paths": partition.paths,
        "named": {
            kind: {name: _acl(each) for name, each in names.items()}
            for kind, names in named.items()
            if names
        },
        "depth": partition.depth,
    }


def _acl(acl: Acl) -> Any:
    return acl.users, acl.groups, dict(acl.origins.users), dict(acl.origins.groups)


def read(cluster: RandomCluster) -> Objects:
    objects, found = read_objects(cluster.text, "cluster")
    assert found == []
    tables: list[dict[Any, Any]] = [objects.roles, objects.bindings, objects.queues]
    for table in tables:
        for key, each in table.items():
            table[key] = each._replace(at=AT)
    return objects


def changes_between(old: Objects, new: Objects) -> list[tuple[str, Any, Any]]:
    return [
        (table, key, getattr(new, table).get(key))
        for table in ("roles", "bindings", "queues")
        for key in {**getattr(old, table), **getattr(new, table)}
        if getattr(old, table).get(key) != getattr(new, table).get(key)
    ]


def test_what_follows_changes_equals_what_reads_all() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    done = 0
    while done < CHANGES:
        clusters = [RandomCluster(chance) for _ in range(4)]
        options = clusters[0].options
        compiler, now = RbacCompiler(options), Objects()
        for cluster in clusters:
            waiting = changes_between(now, read(cluster))
            chance.shuffle(waiting)
            while waiting:
                changes = ObjectChanges()
                for _ in range(chance.choice([1, 1, 1, 2, 5])):
                    if not waiting:
                        break
                    table, key, value = waiting.pop()
                    getattr(changes, table)[key] = value
                    if value is None:
                        del getattr(now, table)[key]
                    else:
                        getattr(now, table)[key] = value
                list(compiler.apply(changes))
                whole = compile_objects(now, options)
                assert content(compiler.partition) == content(whole.partition)
                assert compiler.digest == whole.digest
                assert parents_first(compiler.partition)
                done += 1


def parents_first(partition: Partition) -> bool:
    seen = {""}
    for path in partition.queues:
        if parent_path(path) not in seen:
            return False
        seen.add(path)
    return True


def role(*names: str, namespace: str = "", name: str = "user") -> RbacRole:
    rule = Rule(("use",), ("kueue.x-k8s.io",), ("localqueues",), names)
    return RbacRole(namespace, name, (rule,), False, AT)


def binding(name: str, *users: str, namespace: str = "ml") -> Binding:
    subjects = tuple(Subject(SubjectKind.USER, each) for each in users)
    return Binding(namespace, name, "ClusterRole", "user", subjects, AT)


def applied(compiler: RbacCompiler, *objects: RbacRole | Binding | QueueObject) -> int:
    """Apply changes, and return the number of steps."""
    changes = ObjectChanges()
    for each in objects:
        match each:
            case RbacRole():
                changes.roles[each.namespace, each.name] = each
            case Binding():
                changes.bindings[each.namespace, each.name] = each
            case QueueObject():
                changes.queues[each.kind.level, each.namespace, each.name] = each
    return sum(1 for _ in compiler.apply(changes))


def may(compiler: RbacCompiler, user: str, queue: str = "root.localqueues.ml.training") -> bool:
    decision = decide(compiler.partition, queue, Access.SUBMIT, user, ())
    assert decision is not None
    return decision.allowed


def test_a_change_that_concerns_no_queue_leaves_the_partition() -> None:
    compiler = RbacCompiler(RbacOptions())
    applied(compiler, role(), binding("team", "ann"))
    before = compiler.partition
    other = Binding("ml", "viewers", "ClusterRole", "view", (), AT)
    applied(compiler, other, RbacRole("", "view", (), True, AT))
    assert compiler.partition is before


def test_a_change_shares_all_else() -> None:
    compiler = RbacCompiler(RbacOptions())
    queues = [QueueObject(LOCAL_QUEUES, f"n{i}", "training", AT) for i in range(2_000)]
    teams = [binding("team", f"user-{i}", namespace=f"n{i}") for i in range(2_000)]
    applied(compiler, role(), *queues, *teams)
    before = compiler.partition
    assert applied(compiler, binding("team", "eve", namespace="n7")) < 20
    after = compiler.partition
    changed = {path for path in after.queues if after.queues[path] is not before.queues[path]}
    assert changed == {"root.localqueues.n7"}
    assert not may(compiler, "user-7", "root.localqueues.n7.training")


def test_a_namespace_that_grants_too_much_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_NAMESPACE_GRANTS", 3)
    compiler = RbacCompiler(RbacOptions())
    applied(compiler, role(), binding("a", "ann", "bob"), binding("a", "eve", namespace="web"))
    assert may(compiler, "ann")
    applied(compiler, binding("b", "joe", "sue"))
    assert compiler.left_out == {"ml"}
    assert not may(compiler, "ann")
    assert not may(compiler, "joe")
    assert may(compiler, "eve", "root.localqueues.web.training")
    list(compiler.apply(ObjectChanges(bindings={("ml", "b"): None})))
    assert compiler.left_out == frozenset()
    assert may(compiler, "ann")
    assert not may(compiler, "joe")


def test_manifests_that_grant_too_much_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_NAMESPACE_GRANTS", 0)
    monkeypatch.setattr(load, "MAX_NAMESPACE_GRANTS", 0)
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": _manifests()}).encode()
    partition, found = load_rbac(text, "rbac.yaml", RbacOptions())
    assert partition is None
    assert (
        "the bindings of the namespace ml have more than 0 pairs of a subject and a queue"
        in str(found[0])
    )


def test_a_cluster_that_grants_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "MAX_GRANTS", 1)
    monkeypatch.setattr(load, "MAX_GRANTS", 1)
    compiler = RbacCompiler(RbacOptions())
    with pytest.raises(TooManyGrants):
        applied(compiler, role(), binding("a", "ann"), binding("a", "ann", namespace="web"))
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": _manifests(2)}).encode()
    partition, found = load_rbac(text, "rbac.yaml", RbacOptions())
    assert partition is None
    assert "the cluster's bindings have more than 1 pairs of a subject and a queue" in str(found[0])


def _manifests(bindings: int = 1) -> list[dict[str, Any]]:
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rule = {"verbs": ["use"], "apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues"]}
    return [
        {**api, "kind": "ClusterRole", "metadata": {"name": "user"}, "rules": [rule]},
        *(
            {
                **api,
                "kind": "RoleBinding",
                "metadata": {"name": f"b{number}", "namespace": "ml"},
                "roleRef": {"kind": "ClusterRole", "name": "user"},
                "subjects": [{"kind": "User", "name": "ann"}],
            }
            for number in range(bindings)
        ),
    ]


def _attacks() -> Iterator[Any]:
    """Yield what the bindings of one namespace can contain at most."""
    names = tuple(f"q{number}" for number in range(5_000))
    many = [binding(f"b{i}", f"user-{i}") for i in range(49_000)]
    yield pytest.param([role(), *many], id="one queue for many bindings")
    same = [binding(f"b{i}", "ann") for i in range(49_000)]
    yield pytest.param([role(), *same], id="one user in many bindings")
    yield pytest.param([role(*names), *same[:9]], id="many names")
    everybody = binding("b", *(f"user-{i}" for i in range(9_000)))
    yield pytest.param([role(*names[:5]), everybody], id="many users")
    yield pytest.param([role(*names), *many], id="beyond the bound")
    rules = tuple(itertools.chain.from_iterable(role(f"q{i}").rules for i in range(5_000)))
    yield pytest.param([role()._replace(rules=rules), *same[:9]], id="many rules")


@pytest.mark.parametrize("objects", [*_attacks()])
def test_no_step_is_long(objects: list[RbacRole | Binding]) -> None:
    """A user who may write bindings in a namespace must not stall others."""
    compiler = RbacCompiler(RbacOptions())
    longest = 0.0
    changes = ObjectChanges()
    for each in objects:
        table: Any = changes.roles if isinstance(each, RbacRole) else changes.bindings
        table[each.namespace, each.name] = each
    gc.collect()
    gc.freeze()  # as a server does
    gc.disable()
    try:
        start = time.process_time()
        for _ in compiler.apply(changes):
            end = time.process_time()
            longest = max(longest, end - start)
            start = time.process_time()
    finally:
        gc.enable()
        gc.unfreeze()
    assert longest < 0.02
