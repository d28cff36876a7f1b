"""Compiles the objects of a cluster into a partition: a tree of queues, with ACLs from bindings.

Each binding grants something to its subjects at some targets, which depend on the binding and its
role alone; each ACL depends on the bindings of one or two targets alone. So a change of a binding
concerns the ACLs of its targets, and no others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from queuegate.policy.acl import EMPTY, Acl, AclNames, Origins
from queuegate.policy.named_grants import (
    KINDS,
    MASTERS,
    NO_NAMESPACE,
    Kind,
    NamedGrants,
    level_of,
)
from queuegate.policy.names import DEFAULT_PARTITION, ROOT, SEPARATOR
from queuegate.policy.queue import QueueAcls
from queuegate.policy.reach import SubjectKind
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate_server.formats.kubernetes_rbac.objects import Binding, Objects, RbacRole

_MASTERS_ACL: Final = Acl(
    groups=frozenset({MASTERS}),
    origins=Origins(groups={MASTERS: ("the API server, which allows this group everything",)}),
)


@dataclass(frozen=True, slots=True)
class RbacOptions:
    """Options for reading RBAC."""

    verb: str = "use"
    """The verb that grants the use of a queue."""
    namespaced_grants: bool = False
    """Whether RoleBindings may grant the queues of KAI and Volcano, which have no namespace, to
    objects of their namespace."""

    def has_namespaces(self, kind: Kind) -> bool:
        """Return whether the paths of a kind have a namespace."""
        return kind.is_namespaced or (self.namespaced_grants and kind.may_be_namespaced)


class GrantTarget(NamedTuple):
    """What a binding grants: the queues of a kind, in a namespace and with a name."""

    kind: str
    """The level of the kind."""
    namespace: str
    """Empty for a cluster-wide grant."""
    name: str
    """The level of the name; empty for all names."""


def targets(binding: Binding, role: RbacRole, options: RbacOptions) -> Iterator[GrantTarget]:
    """Yield what a binding of a role grants. A target may repeat."""
    for rule in role.rules:
        for kind in KINDS:
            if not rule.allows(options.verb, kind.group, kind.resource):
                continue
            if binding.namespace and not options.has_namespaces(kind):
                continue
            levels = map(level_of, rule.names) if rule.names else ("",)
            for level in levels:
                # No queue has a name without a level.
                if level is not None:
                    yield GrantTarget(kind.level, binding.namespace, level)


class GrantTable:
    """The bindings of a cluster, by target."""

    def __init__(self, objects: Objects, options: RbacOptions) -> None:
        self.bindings: dict[GrantTarget, list[Binding]] = {}
        for binding in objects.bindings.values():
            if role := objects.roles.get(binding.role):
                for target in dict.fromkeys(targets(binding, role, options)):
                    self.bindings.setdefault(target, []).append(binding)

    def acl(self, *of: GrantTarget) -> Acl:
        """Return the ACL made of the bindings of some targets."""
        users: dict[str, list[str]] = {}
        groups: dict[str, list[str]] = {}
        for target in of:
            for binding in self.bindings.get(target, ()):
                origin = binding.origin
                for kind, name in dict.fromkeys(binding.subjects):
                    names = users if kind is SubjectKind.USER else groups
                    names.setdefault(name, []).append(origin)
        if not users and not groups:
            return EMPTY
        origins = Origins(_tuples(users), _tuples(groups))
        return Acl(users=frozenset(users), groups=frozenset(groups), origins=origins)


def compile_partition(objects: Objects, options: RbacOptions) -> Partition:
    """Return the partition of a cluster.

    It lists the queues that exist, and those that a binding names in its own namespace.
    """
    table = GrantTable(objects, options)
    namespaced = frozenset(kind.level for kind in KINDS if options.has_namespaces(kind))
    named: dict[str, dict[str, Acl]] = {}
    names: dict[str, dict[str, dict[str, None]]] = {kind.level: {} for kind in KINDS}
    for kind, namespace, name, _ in objects.queues.values():
        if (level := level_of(name)) is not None:
            above = namespace or (NO_NAMESPACE if kind.level in namespaced else "")
            names[kind.level].setdefault(above, {})[level] = None
    for target in table.bindings:
        if target.kind in namespaced and not target.namespace:
            if target.name:
                named.setdefault(target.kind, {})[target.name] = table.acl(target)
            continue
        listed = names[target.kind].setdefault(target.namespace, {})
        if target.name:
            listed[target.name] = None
    builder = PartitionBuilder(DEFAULT_PARTITION, acl_names=AclNames.ANY)
    builder.add([QueueAcls(ROOT, _MASTERS_ACL, EMPTY)])
    for level, namespaces in names.items():
        builder.add(_queues(level, namespaces, named.get(level, {}), table))
    return replace(builder.build(), named_grants=NamedGrants(namespaced, named))


def _queues(
    kind: str,
    namespaces: Mapping[str, Mapping[str, None]],
    named: Mapping[str, Acl],
    table: GrantTable,
) -> Iterator[QueueAcls]:
    """Yield the queues of a kind, parents first."""
    top = f"{ROOT}{SEPARATOR}{kind}"
    yield QueueAcls(top, table.acl(GrantTarget(kind, "", "")), EMPTY)
    for namespace, names in namespaces.items():
        path = f"{top}{SEPARATOR}{namespace}" if namespace else top
        if namespace:
            yield QueueAcls(path, table.acl(GrantTarget(kind, namespace, "")), EMPTY)
        for name in names:
            own = GrantTarget(kind, namespace, name)
            if namespace and own not in table.bindings:
                acl = named.get(name, EMPTY)
            else:
                acl = table.acl(own, GrantTarget(kind, "", name)) if namespace else table.acl(own)
            yield QueueAcls(f"{path}{SEPARATOR}{name}", acl, EMPTY)


def _tuples(names: Mapping[str, list[str]]) -> Mapping[str, tuple[str, ...]]:
    return {name: tuple(origins) for name, origins in names.items()}
