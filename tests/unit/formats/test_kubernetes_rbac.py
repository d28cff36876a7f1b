"""Kubernetes' RBAC as a policy: what is read, what is refused, and attacks in manifests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from queuegate.policy.decide import decide
from queuegate.policy.decision import Access
from queuegate.policy.reach import effective_acl
from queuegate.policy.tree import Partition
from queuegate_server.formats.detection import detect_policy_format
from queuegate_server.formats.diagnostics import has_errors
from queuegate_server.formats.format_names import KUBERNETES, YUNIKORN
from queuegate_server.formats.kubernetes_rbac import manifests
from queuegate_server.formats.kubernetes_rbac.grants import RbacOptions
from queuegate_server.formats.kubernetes_rbac.lint import lint_rbac
from queuegate_server.formats.kubernetes_rbac.load import load_rbac
from queuegate_server.formats.kubernetes_rbac.manifests import ManifestFiles, split
from queuegate_server.formats.registry import load_policy
from tests.support.generators.rbac import API
from tests.support.rows import rows

QUEUE = "root.localqueues.ml.training"


def role(*rules: Mapping[str, Any], namespace: str = "", name: str = "user") -> dict[str, Any]:
    kind = "Role" if namespace else "ClusterRole"
    return {**_object(API, kind, namespace, name), "rules": rules}


def rule(*names: str, resource: str = "localqueues") -> dict[str, Any]:
    group = {"localqueues": "kueue.x-k8s.io", "queues": "scheduling.run.ai"}[resource]
    return {"verbs": ["use"], "apiGroups": [group], "resources": [resource], "resourceNames": names}


def binding(*subjects: Mapping[str, str], namespace: str = "", of: str = "ClusterRole") -> Any:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    reference = {"kind": of, "name": "user"}
    return {
        **_object(API, kind, namespace, "team"),
        "roleRef": reference,
        "subjects": subjects,
    }


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


def group(name: str) -> dict[str, str]:
    return {"kind": "Group", "name": name}


def _object(api: str, kind: str, namespace: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{api}/v1", "kind": kind, "metadata": metadata}


def load(*objects: Any, **options: Any) -> Partition:
    text = "\n---\n".join(map(json.dumps, objects)).encode()
    partition, diagnostics = load_rbac(text, "rbac.yaml", RbacOptions(**options))
    assert partition is not None, diagnostics
    return partition


def may(partition: Partition, name: str, *groups: str, queue: str = QUEUE) -> bool:
    assert partition.canonical_path(queue) == queue
    decision = decide(partition, queue, Access.SUBMIT, name, groups)
    assert decision is not None
    return decision.allowed


def test_each_entry_has_its_origin() -> None:
    partition = load(role(rule()), binding(user("ann"), group("dev"), namespace="ml"))
    acl = effective_acl(partition, QUEUE, Access.SUBMIT)
    assert [(str(each.kind), each.name, each.origins) for each in acl.grants()] == [
        ("user", "ann", ("RoleBinding ml/team, ClusterRole user",)),
        ("group", "dev", ("RoleBinding ml/team, ClusterRole user",)),
        (
            *("group", "system:masters"),
            ("the API server, which allows this group everything",),
        ),
    ]


def test_a_grant_by_name_concerns_queues_that_do_not_exist() -> None:
    partition = load(role(rule("training")), binding(user("ann")))
    assert may(partition, "ann")
    assert may(partition, "ann", queue="root.localqueues.web.training")
    assert not may(partition, "ann", queue="root.localqueues.web.other")
    assert not may(partition, "ann", queue="root.localqueues.web")


@pytest.mark.parametrize("namespaced_grants", [False, True])
def test_queues_without_namespaces(*, namespaced_grants: bool) -> None:
    partition = load(
        role(rule("gpu", resource="queues")),
        binding(user("ann"), namespace="ml"),
        {**binding(user("bob")), "metadata": {"name": "all"}},
        namespaced_grants=namespaced_grants,
    )
    of_namespace = ".ml" if namespaced_grants else ""
    assert may(partition, "ann", queue=f"root.kai-queues{of_namespace}.gpu") is namespaced_grants
    assert may(partition, "bob", queue=f"root.kai-queues{of_namespace}.gpu")
    assert not may(partition, "bob", queue=f"root.kai-queues{of_namespace}.cpu")


# Attacks: what manifests may contain that must not open a queue.


@pytest.mark.parametrize("name", ["Training", "TRAINING", "*", "", "train*", "a_dot_b", "x" * 65])
def test_names_that_no_queue_has_open_none(name: str) -> None:
    partition = load(role(rule(name)), binding(user("ann")), binding(user("ann"), namespace="ml"))
    for queue in (QUEUE, "root.localqueues.ml", "root.localqueues", "root.localqueues.ml.a_dot_b"):
        assert not may(partition, "ann", queue=queue)
    assert partition.canonical_path("root.localqueues.ml.Training") is None


def test_a_star_is_the_name_of_one_user() -> None:
    partition = load(role(rule()), binding(user("*"), group("*")))
    assert not may(partition, "ann", "dev")
    assert may(partition, "*")


def test_names_with_blanks_and_commas() -> None:
    partition = load(role(rule()), binding(user("ann, bob"), group("team a")))
    assert may(partition, "ann, bob")
    assert may(partition, "eve", "team a")
    assert not any(may(partition, each, each) for each in ("ann", "bob", "team", "a", ""))


def test_a_binding_without_its_role_grants_nothing() -> None:
    partition = load(role(rule(), name="other"), binding(user("ann"), namespace="ml"))
    assert not may(partition, "ann")
    # A Role of another namespace is not the binding's.
    partition = load(role(rule(), namespace="web"), binding(user("ann"), namespace="ml", of="Role"))
    assert not may(partition, "ann")


def test_a_role_of_the_same_name_in_another_namespace() -> None:
    partition = load(
        role(rule(), namespace="ml"),
        role(namespace="web"),
        binding(user("ann"), namespace="ml", of="Role"),
        binding(user("ann"), namespace="web", of="Role"),
    )
    assert may(partition, "ann")
    assert not may(partition, "ann", queue="root.localqueues.web.training")


def test_an_aggregated_role_has_the_rules_that_are_filled_in() -> None:
    aggregated = role() | {"aggregationRule": {"clusterRoleSelectors": []}}
    partition = load(aggregated, role(rule(), name="part"), binding(user("ann")))
    assert not may(partition, "ann")
    assert may(load(aggregated | {"rules": [rule()]}, binding(user("ann"))), "ann")


def test_a_queue_whose_name_is_too_long_is_left_out() -> None:
    queue = _object("kueue.x-k8s.io", "LocalQueue", "ml", "x" * 65)
    partition = load(queue, role(rule()), binding(user("ann")))
    assert [path for path in partition.paths if path.startswith("root.localqueues")] == [
        "root.localqueues"
    ]


@rows
def test_objects_that_kubernetes_refuses(text: str, message: str) -> None:
    partition, diagnostics = load_rbac(text.encode(), "rbac.yaml", RbacOptions())
    assert partition is None
    assert has_errors(diagnostics)
    assert message in "\n".join(map(str, diagnostics))


def test_a_repeated_object_names_the_other_place(tmp_path: Path) -> None:
    text = json.dumps(role(rule()))
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "b.yaml").write_text(f"\n---\n{text}\n")
    _, diagnostics = load_rbac(ManifestFiles([tmp_path]).read(), "rbac", RbacOptions())
    [found] = diagnostics
    assert found.file == str(tmp_path / "b.yaml")
    assert f"{tmp_path / 'a.json'}, line 1" in found.message


def test_yaml_bombs_are_bounded() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 10)}]" for n in range(9)
    )
    text = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n{bomb}\n"
    partition, diagnostics = load_rbac(text.encode(), "bomb.yaml", RbacOptions())
    assert partition is None
    assert "keys and values" in str(diagnostics[0])


def test_deeply_nested_lists_are_not_followed() -> None:
    inner: Any = role(rule())
    for _ in range(50):
        inner = {"apiVersion": "v1", "kind": "List", "items": [inner]}
    partition, _ = load_rbac(json.dumps(inner).encode(), "rbac.yaml", RbacOptions())
    assert partition is None


def test_many_bindings_of_one_tenant_stay_in_her_namespace() -> None:
    bindings = [
        {**binding(user(f"u{number}"), namespace="ml"), "metadata": {"name": f"b{number}"}}
        for number in range(5_000)
    ]
    for each in bindings:
        each["metadata"]["namespace"] = "ml"
    items = {"apiVersion": "v1", "kind": "List", "items": [role(rule()), *bindings]}
    partition = load(items)
    assert may(partition, "u4999")
    assert len(partition.queues["root.localqueues.ml"].submit_acl.users) == 5_000
    others = [path for path in partition.paths if path != "root.localqueues.ml"]
    assert not any(partition.queues[path].submit_acl.users for path in others)


# Files and folders.


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "roles.yml").write_text(json.dumps(role(rule())))
    (tmp_path / "below" / "bindings.json").write_text(json.dumps(binding(user("ann"))))
    (tmp_path / "notes.txt").write_text("not read")
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "roles.yml").write_text(json.dumps(role(rule())))
    data = ManifestFiles([tmp_path]).read()
    assert [Path(each.name).name for each in split(data, "")] == ["bindings.json", "roles.yml"]
    assert detect_policy_format(data) == KUBERNETES
    loaded = load_policy(KUBERNETES, data, str(tmp_path))
    assert may(loaded.partitions["default"], "ann")


def test_a_folder_without_manifests_is_not_an_empty_policy(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="has no"):
        ManifestFiles([tmp_path]).read()
    with pytest.raises(FileNotFoundError):
        ManifestFiles([tmp_path / "absent"]).read()


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text("x" * 10)
    monkeypatch.setattr(manifests, "MAX_FILES", 2)
    with pytest.raises(OSError, match="more than 2 files"):
        ManifestFiles([tmp_path]).read()
    monkeypatch.setattr(manifests, "MAX_FILES", 3)
    monkeypatch.setattr(manifests, "MAX_BYTES", 29)
    with pytest.raises(OSError, match="larger than 29 bytes"):
        ManifestFiles([tmp_path]).read()


@pytest.mark.parametrize("rest", [b"x", b'["a", "b"]\n', b"[1]\n", b'["a", -5]\n', b'["a", 9]'])
def test_a_damaged_text_is_refused(rest: bytes) -> None:
    partition, diagnostics = load_rbac(b"#queuegate-manifests\n" + rest, "x", RbacOptions())
    assert partition is None
    assert "the combined text of several manifests is damaged" in str(diagnostics[0])


def test_a_policy_in_a_config_map_beside_rbac_is_still_found() -> None:
    config_map = {
        **_object("", "ConfigMap", "", "yunikorn-configs"),
        "apiVersion": "v1",
        "data": {"queues.yaml": "partitions:\n- name: default\n  queues:\n  - name: root\n"},
    }
    both = "\n---\n".join(map(json.dumps, (role(rule()), config_map)))
    assert detect_policy_format(both.encode()) == YUNIKORN
    assert detect_policy_format(json.dumps(role(rule())).encode()) == KUBERNETES


def test_lint_says_nothing_about_ordinary_grants() -> None:
    objects = (
        role(rule("training")),
        binding(user("ann"), namespace="ml"),
        _object("kueue.x-k8s.io", "LocalQueue", "ml", "training"),
    )
    text = "\n---\n".join(map(json.dumps, objects)).encode()
    assert lint_rbac(text, "rbac.yaml", RbacOptions()) == ()
