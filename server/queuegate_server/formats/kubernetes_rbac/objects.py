"""Reads the objects that determine who may use a cluster's queues: roles, bindings and queues.

The fields and their validation are those of Kubernetes' `pkg/apis/rbac`. Other kinds are skipped.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from queuegate.policy.named_grants import KINDS, Kind, ServiceAccount
from queuegate.policy.reach import SubjectKind
from queuegate_server.formats.diagnostics import Diagnostics, quoted
from queuegate_server.formats.findings.finding import Finding
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode, SequenceNode

_RBAC: Final = "rbac.authorization.k8s.io"
_ROLES: Final = frozenset({"Role", "ClusterRole"})
_BINDINGS: Final = frozenset({"RoleBinding", "ClusterRoleBinding"})
_NAMESPACED: Final = frozenset({"Role", "RoleBinding"})
_QUEUES: Final[Mapping[tuple[str, str], Kind]] = {
    (kind.group, kind.object_kind): kind for kind in KINDS
}
NAMESPACE: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LIST: Final = "List"
_KEYS_OF_RULES: Final = ("verbs", "apiGroups", "resources", "resourceNames")
_ACCOUNT: Final = "ServiceAccount"
SUBJECT_KINDS: Final = {
    "User": SubjectKind.USER,
    "Group": SubjectKind.GROUP,
    _ACCOUNT: SubjectKind.USER,
}
_NO_VALUES: Final = MappingNode(0, 0)
_MAX_LISTS: Final = 2
"""The maximum depth of nested lists. kubectl prints one list."""


Key = tuple[str, str]
"""The namespace and name of a role or binding; the namespace is empty for a ClusterRole or
ClusterRoleBinding."""

QueueKey = tuple[str, str, str]
"""The level of a queue's kind, its namespace (empty if the kind has none) and its name."""


class At(NamedTuple):
    """The 1-based position of an object in a file."""

    line: int
    column: int
    file: str


class Rule(NamedTuple):
    """A rule of a role: verbs on resources."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the objects that the rule covers; empty if it covers all objects."""

    def allows(self, verb: str, group: str, resource: str) -> bool:
        """Return whether the rule allows a verb on some objects of a resource."""
        return not {verb, "*"}.isdisjoint(self.verbs) and self.covers(group, resource)

    def covers(self, group: str, resource: str) -> bool:
        """Return whether the rule covers some objects of a resource."""
        of_group = not {group, "*"}.isdisjoint(self.groups)
        return of_group and not {resource, "*"}.isdisjoint(self.resources)


class RbacRole(NamedTuple):
    """A Role, or a ClusterRole, which has no namespace."""

    namespace: str
    name: str
    rules: tuple[Rule, ...]
    is_aggregated: bool
    at: At


class Subject(NamedTuple):
    """A user or a group that a binding names. A service account is a user."""

    kind: SubjectKind
    name: str


class Binding(NamedTuple):
    """A RoleBinding, or a ClusterRoleBinding, which has no namespace."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Subject, ...]
    at: At

    @property
    def role(self) -> Key:
        """The key of the role that the binding grants."""
        return (self.namespace if self.role_kind == "Role" else "", self.role_name)

    @property
    def origin(self) -> str:
        """The origin of the entries that the binding adds to ACLs, for display."""
        kind = f"RoleBinding {self.namespace}/" if self.namespace else "ClusterRoleBinding "
        return f"{kind}{self.name}, {self.role_kind} {self.role_name}"


class QueueObject(NamedTuple):
    """A queue."""

    kind: Kind
    namespace: str
    name: str
    at: At


@dataclass(slots=True)
class Objects:
    """A cluster's objects."""

    roles: dict[Key, RbacRole] = field(default_factory=dict)
    bindings: dict[Key, Binding] = field(default_factory=dict)
    queues: dict[QueueKey, QueueObject] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The number of objects."""
        return len(self.roles) + len(self.bindings) + len(self.queues)


class _Refused(Exception):
    """Raised for an object that Kubernetes would reject."""

    def __init__(self, found: Finding) -> None:
        super().__init__(found.message)
        self.finding = found


def add_objects(document: Node, diagnostics: Diagnostics, objects: Objects) -> None:
    """Add the objects in a document, and report each one that Kubernetes would reject.

    Raises TooManyErrors.
    """
    for node, version, kind in _objects(document):
        group = version.rpartition("/")[0]
        at = At(node.line, node.column, diagnostics.file)
        try:
            if group == _RBAC and kind in _ROLES | _BINDINGS:
                _add_rbac(node, kind, at, objects)
            elif queue := _QUEUES.get((group, kind)):
                namespace, name = _metadata(node, kind, is_namespaced=queue.is_namespaced)
                entry = QueueObject(queue, namespace, name, at)
                _add(objects.queues, (queue.level, namespace, name), entry, kind)
        except _Refused as error:
            diagnostics.add(at, error.finding)


def _objects(
    node: Node, version: str = "", kind: str = "", depth: int = 0
) -> Iterator[tuple[MappingNode, str, str]]:
    """Yield the objects in a document, each with its version and kind."""
    if not isinstance(node, MappingNode):
        return
    version, kind = _text(node.get("apiVersion")) or version, _text(node.get("kind")) or kind
    items = node.get("items")
    if not (kind.endswith(_LIST) and isinstance(items, SequenceNode)):
        yield node, version, kind
        return
    if depth < _MAX_LISTS:
        # The items of a typed list, such as a RoleList, may lack version and kind.
        of_items = (version, kind.removesuffix(_LIST)) if kind != _LIST else ("", "")
        for item in items.items:
            yield from _objects(item, *of_items, depth + 1)


def _add_rbac(node: MappingNode, kind: str, at: At, objects: Objects) -> None:
    """Add a role or a binding. Raises _Refused if it is not valid."""
    namespace, name = _metadata(node, kind, is_namespaced=kind in _NAMESPACED)
    about = {"kind": kind, "name": quoted(name)}
    if kind in _ROLES:
        rules = tuple(
            Rule(*(_texts(each, key, about) for key in _KEYS_OF_RULES))
            for each in _mappings(node, "rules", about)
        )
        role = RbacRole(namespace, name, rules, node.get("aggregationRule") is not None, at)
        _add(objects.roles, (namespace, name), role, kind)
        return
    reference = node.get("roleRef")
    values = reference if isinstance(reference, MappingNode) else _NO_VALUES
    role_kind, role_name = (_text(values.get(key)) for key in ("kind", "name"))
    known = _ROLES if namespace else _ROLES - _NAMESPACED
    if role_kind not in known or not role_name:
        kinds = " or ".join(sorted(known))
        raise _Refused(finding("bad-role-reference", **about, kinds=kinds))
    subjects = tuple(
        _subject(each, namespace, about) for each in _mappings(node, "subjects", about)
    )
    binding = Binding(namespace, name, role_kind, role_name, subjects, at)
    _add(objects.bindings, (namespace, name), binding, kind)


def _add(known: dict[Any, Any], key: tuple[str, ...], entry: object, kind: str) -> None:
    """Add an entry with a key that no other entry may have. Raises _Refused."""
    if (other := known.setdefault(key, entry)) is not entry:
        name = quoted("/".join(filter(None, key[-2:])))
        place = {"file": other.at.file, "line": other.at.line}
        raise _Refused(finding("repeated-object", kind=kind, name=name, **place))


def _metadata(node: MappingNode, kind: str, *, is_namespaced: bool) -> tuple[str, str]:
    """Return an object's namespace, empty if its kind has none, and its name."""
    metadata = node.get("metadata")
    values = metadata if isinstance(metadata, MappingNode) else _NO_VALUES
    name, namespace = _text(values.get("name")), _text(values.get("namespace"))
    if not name:
        raise _Refused(finding("no-object-name", kind=kind))
    about = {"kind": kind, "name": quoted(name)}
    if is_namespaced and not namespace:
        raise _Refused(finding("no-object-namespace", **about))
    if is_namespaced and not NAMESPACE.fullmatch(namespace):
        raise _Refused(finding("bad-namespace", **about, namespace=quoted(namespace)))
    return (namespace if is_namespaced else ""), name


def _subject(node: MappingNode, namespace: str, about: Mapping[str, str]) -> Subject:
    """Return a binding's subject. A service account has the user name that the API server uses."""
    kind, name = _text(node.get("kind")), _text(node.get("name"))
    home = _text(node.get("namespace")) or namespace
    why = ""
    if not name:
        why = "has no name"
    elif kind not in SUBJECT_KINDS:
        why = f"has the kind {quoted(kind)}" if kind else "has no kind"
    elif kind == _ACCOUNT and not home:
        why = f"is the ServiceAccount {quoted(name)} without a namespace"
    if why:
        raise _Refused(finding("bad-subject", **about, why=why))
    if kind == _ACCOUNT:
        name = ServiceAccount(home, name).user
    return Subject(SUBJECT_KINDS[kind], name)


def _mappings(node: MappingNode, key: str, about: Mapping[str, str]) -> Iterator[MappingNode]:
    for item in _items(node, key, about, "mappings"):
        if not isinstance(item, MappingNode):
            raise _Refused(finding("not-a-list-of-objects", **about, key=key, items="mappings"))
        yield item


def _texts(node: MappingNode, key: str, about: Mapping[str, str]) -> tuple[str, ...]:
    texts = []
    for item in _items(node, key, about, "words"):
        if not isinstance(item, ScalarNode):
            raise _Refused(finding("not-a-list-of-objects", **about, key=key, items="words"))
        texts.append(item.text)
    return tuple(texts)


def _items(node: MappingNode, key: str, about: Mapping[str, str], items: str) -> list[Node]:
    value = node.get(key)
    if value is None or (isinstance(value, ScalarNode) and value.is_null):
        return []
    if not isinstance(value, SequenceNode):
        raise _Refused(finding("not-a-list-of-objects", **about, key=key, items=items))
    return value.items


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, ScalarNode) and not node.is_null else ""
