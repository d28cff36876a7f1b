"""Answers of a Kubernetes API server: a fault, or roles, bindings and queues that they contain.

The first byte of an input selects what is asked for, and whether the rest is a list or a line of a
watch. What is read is compared with what Python's own parser reads.
"""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from queuegate.policy.named_grants import KINDS
from queuegate_server.formats.kubernetes_rbac.objects import Binding, RbacRole
from queuegate_server.policystore.kubernetes import decoding
from queuegate_server.policystore.kubernetes.api_client import ApiFault
from queuegate_server.policystore.kubernetes.decoding import Decoded
from queuegate_server.policystore.kubernetes.resource_watch import RBAC_RESOURCES, Resource
from tests.support.generators.rbac import RandomCluster

TOKENS: Final = (
    *(b'"metadata":', b'"name":', b'"namespace":', b'"resourceVersion":', b'"continue":'),
    *(b'"items":', b'"rules":', b'"verbs":', b'"apiGroups":', b'"resources":', b'"resourceNames":'),
    *(b'"roleRef":', b'"kind":', b'"subjects":', b'"type":', b'"object":', b'"code":410', b"null"),
    *(b'"ERROR"', b'"ADDED"', b'"DELETED"', b'"BOOKMARK"', b'"use"', b'"*"', b'"User"', b'"Group"'),
    *(b'"ServiceAccount"', b'"ClusterRole"', b'"Role"', b"{", b"}", b"[", b"]", b",", b"\\u0000"),
)
_RESOURCES: Final = (*RBAC_RESOURCES, Resource(KINDS[0].group, KINDS[0].resource, True, KINDS[0]))
_WATCH: Final = 128
_LIMIT: Final = 250
_KINDS: Final = {"User": "user", "Group": "group", "ServiceAccount": "user"}


def target(data: bytes) -> None:
    """Read an answer."""
    if not data:
        return
    resource = _RESOURCES[data[0] % _WATCH % len(_RESOURCES)]
    text = data[1:]
    try:
        if data[0] >= _WATCH:
            items = [decoding.event(text).object]
        else:
            items = decoding.page(text, _LIMIT).items or []
        read = [
            decoding.decode(
                item, resource.name, resource.queue, is_namespaced=resource.is_namespaced
            )
            for item in items
        ]
    except ApiFault:
        return
    parsed = json.loads(text)
    slow = [parsed["object"]] if data[0] >= _WATCH else parsed.get("items") or []
    assert len(slow) == len(read)
    for each, decoded in zip(slow, read, strict=True):
        _judge(resource, each, decoded)


def _judge(resource: Resource, slow: dict[str, Any], decoded: Decoded) -> None:
    metadata = slow["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    assert decoded.key[-2:] == (namespace, name)
    assert bool(namespace) is resource.is_namespaced
    entry = decoded.entry
    if isinstance(entry, RbacRole):
        assert [[*map(list, rule)] for rule in entry.rules] == [
            [rule.get(key) or [] for key in ("verbs", "apiGroups", "resources", "resourceNames")]
            for rule in slow.get("rules") or []
        ]
    if isinstance(entry, Binding):
        reference = slow["roleRef"]
        named = (reference["kind"], reference["name"])
        is_usable = named[0] in ({"Role", "ClusterRole"} if namespace else {"ClusterRole"})
        assert (entry.role_kind, entry.role_name) == (named if is_usable else ("ClusterRole", ""))
        assert [(str(each.kind), each.name) for each in entry.subjects] == [
            *_subjects(slow.get("subjects") or [], namespace)
        ]


def _subjects(slow: list[dict[str, Any]], namespace: str) -> Iterator[tuple[str, str]]:
    for each in slow:
        kind, name = each["kind"], each["name"]
        home = each.get("namespace") or namespace
        if kind == "ServiceAccount" and name and home:
            yield "user", f"system:serviceaccount:{home}:{name}"
        elif kind in {"User", "Group"} and name:
            yield _KINDS[kind], name


def seeds() -> Iterator[bytes]:
    """Yield lists and events of random clusters."""
    for seed in range(8):
        cluster = RandomCluster(random.Random(seed))
        kinds = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "LocalQueue")
        for number, kind in enumerate(kinds):
            items = [each for each in cluster.objects if each["kind"] == kind]
            metadata = {"resourceVersion": "7", "continue": "x"}
            page = json.dumps({"metadata": metadata, "items": items}).encode()
            yield bytes([number]) + page
            for each in items[:2]:
                event = json.dumps({"type": "ADDED", "object": each}).encode()
                yield bytes([_WATCH + number]) + event
