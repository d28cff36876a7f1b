"""Loads partitions from a queues.yaml, and reports all errors at once.

The rules for partitions and queues follow `Validate`, `checkQueuesStructure`, `checkQueues` and
`checkQueueMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. A root queue
spelled `ROOT` is rejected: the validator accepts it, but the scheduler
(`initialPartitionFromConfig`) does not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.names import DEFAULT_PARTITION, ROOT, is_queue_name
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    Severity,
    has_errors,
    quoted,
    sort_diagnostics,
)
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.acls import AclReader
from queuegate_server.formats.yunikorn.document import decode
from queuegate_server.formats.yunikorn.model import (
    PartitionConfig,
    QueueConfig,
    normalized_name,
)
from queuegate_server.formats.yunikorn.placement import check_placement, groups_outside_acls
from queuegate_server.formats.yunikorn.quotas import check_limits, check_resources

RESOLVER_TYPES: Final = frozenset({"", "none", "os", "test", "ldap"})
"""The values of `usergroupresolver.type`. YuniKorn treats any other text as `none`."""

NOT_FOUND: Final = "every request will fail with NOT_FOUND"
_MAX_SHOWN_NAMES: Final = 5
_NODE_SORT_POLICIES: Final = ("binpacking", "fair")


def load_queues(
    data: bytes,
    file: str,
    acl_names: Callable[[str], AclNames],
    resolver_types: frozenset[str],
    *,
    has_option: bool = False,
) -> tuple[Mapping[str, Partition], tuple[Diagnostic, ...]]:
    """Return the partitions by name (none if there are errors), and all diagnostics.

    `acl_names` returns the kind of names allowed in the given partition's ACLs. `resolver_types`
    are allowed in addition to YuniKorn's types. `has_option` is whether the user may pass
    --acl-names, for remedies.
    """
    document = read_yaml(data, file)
    partitions: list[PartitionConfig] = []
    diagnostics = Diagnostics(file)
    built = {}
    if document.second is not None:
        message = "a second YAML document starts here; only the first one is read"
        diagnostics.warning(document.second, message, "put everything into one document")
    with diagnostics:
        partitions = decode(document.root, diagnostics, has_option=has_option)
        if not partitions and not document.diagnostics and not diagnostics.error_count:
            message = "the document defines no partition"
            remedy = "add a partition under partitions"
            if not data.strip():
                message, remedy = "the file is empty", "fill it, or name another file"
            diagnostics.warning(document.root, f"{message}: {NOT_FOUND}", remedy)
        _check_partition_names(partitions, diagnostics)
        for partition in partitions:
            name = normalized_name(partition)
            _check_partition(partition, RESOLVER_TYPES | resolver_types, diagnostics)
            names = acl_names(name)
            check = AclReader(names, diagnostics, name, has_option=has_option).check
            queues = [
                QueueAcls(
                    each.path, check(each.submit_acl, each.path), check(each.admin_acl, each.path)
                )
                for each in partition.queues
            ]
            if not document.diagnostics and not diagnostics.error_count:
                resolver = partition.resolver_type
                kind = resolver.text if resolver else ""
                position = (resolver.line, resolver.column) if resolver else (0, 0)
                builder = PartitionBuilder(name, kind, resolver_place=position, acl_names=names)
                builder.add(queues)
                parents = frozenset(
                    each.path
                    for each in partition.queues
                    if each.is_parent and not each.has_children
                )
                groups, patterns = groups_outside_acls(partition)
                built[name] = replace(
                    builder.build(),
                    childless_parents=parents,
                    groups_outside_acls=groups,
                    group_patterns=patterns,
                )
    diagnostics_of_file = (*document.diagnostics, *diagnostics.sorted())
    if has_errors(diagnostics_of_file):
        built = {}
    return built, tuple(sort_diagnostics(diagnostics_of_file))


def other_key(file: str, key: str) -> Diagnostic:
    """Return a warning that YuniKorn reads `key` in the ConfigMap instead of `file`."""
    message = "service.policyGroup in the ConfigMap makes YuniKorn read"
    message += f" {quoted(key)} instead of this"
    return Diagnostic(file, 0, 0, Severity.WARNING, message, "serve that key, or correct the group")


def missing_default_partition(file: str, partitions: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a warning if no partition is named `default`. Shims query only that partition."""
    if not partitions or DEFAULT_PARTITION in partitions:
        return
    names = ", ".join(quoted(name) for name in sorted(partitions)[:_MAX_SHOWN_NAMES])
    message = f"no partition is named {quoted(DEFAULT_PARTITION)}, only {names}: YuniKorn's shim"
    message += " for Kubernetes knows only that one, and requests that name no partition use it"
    remedy = f"rename the partition to {DEFAULT_PARTITION}, unless callers name it"
    yield Diagnostic(file, 0, 0, Severity.WARNING, message, remedy)


def _check_partition_names(partitions: list[PartitionConfig], diagnostics: Diagnostics) -> None:
    """Check that the names are unique, ignoring case."""
    first: dict[str, PartitionConfig] = {}
    for partition in partitions:
        if not partition.name.is_known:
            continue
        name = normalized_name(partition)
        other = first.setdefault(name.lower(), partition)
        if other is not partition:
            line = (other.name.position or other.position).line
            message = f"partition {quoted(name)} is defined twice, first on line {line}"
            remedy = "rename or remove one; case is ignored"
            diagnostics.error(partition.name.position, message, remedy)


def _check_partition(
    partition: PartitionConfig, resolver_types: frozenset[str], diagnostics: Diagnostics
) -> None:
    _check_queues(partition, diagnostics)
    check_resources(partition, diagnostics)
    check_placement(partition, diagnostics)
    check_limits(partition, diagnostics)
    _check_node_sort_policy(partition, diagnostics)
    resolver = partition.resolver_type
    if resolver and resolver.text not in resolver_types:
        known = ", ".join(sorted(resolver_types - {""}))
        message = f"{quoted(resolver.text)} is not a resolver type"
        diagnostics.error(resolver, message, f"write one of {known}, or remove it")


def _check_node_sort_policy(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    policy = partition.node_sort_policy
    if policy is None:
        return
    if policy.kind and policy.kind.text and policy.kind.text not in _NODE_SORT_POLICIES:
        message = f"{quoted(policy.kind.text)} is not a node sort policy"
        remedy = f"write one of {', '.join(_NODE_SORT_POLICIES)}"
        diagnostics.error(policy.kind, message, remedy)
    for name, (weight, position) in policy.weights.items():
        if weight < 0:
            message = f"the weight of {quoted(name)} is negative"
            diagnostics.error(position, message, "write 0 or more")


def _check_queues(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the structure of the partition's queue tree."""
    stated = partition.position.get("queues")
    if stated is None or (isinstance(stated, ScalarNode) and stated.is_null):
        message = f"partition {quoted(normalized_name(partition))} has no queues"
        diagnostics.error(partition.position, message, "add them; [] means a root queue only")
    if not partition.queues:
        return
    _check_root(partition.queues[0], diagnostics)
    first: dict[str, QueueConfig] = {}
    for queue in partition.queues:
        if queue.parent is None:
            continue
        if queue.name.is_known:
            _check_name(queue, first, diagnostics)
        _check_max_applications(queue, queue.parent, diagnostics)


def _check_root(root: QueueConfig, diagnostics: Diagnostics) -> None:
    if root.name.text != ROOT:
        message = f"the top queue is spelled {quoted(root.name.text)}: YuniKorn's validator"
        message += " accepts it, but its scheduler does not load it"
        diagnostics.error(root.name.position, message, f"write {ROOT}", root.path)
    resources = root.resources
    if resources and (resources.guaranteed is not None or resources.maximum is not None):
        message = "the root queue must not have resources"
        remedy = "remove them; the nodes define them"
        diagnostics.error(resources.position, message, remedy, root.path)


def _check_name(
    queue: QueueConfig, first: dict[str, QueueConfig], diagnostics: Diagnostics
) -> None:
    name, position, _ = queue.name
    if not is_queue_name(name):
        message = f"{quoted(name)} is not a queue name" if name else "the queue has no name"
        remedy = "use 1 to 64 letters, digits and _ : # / @ - without dots"
        diagnostics.error(position, message, remedy, queue.path)
        return
    other = first.setdefault(queue.path, queue)
    if other is not queue:
        line = other.position.line if other.position else 0
        message = f"queue {quoted(queue.path)} is defined twice, first on line {line}"
        diagnostics.error(position, message, "rename or remove one; case is ignored", queue.path)


def _check_max_applications(
    queue: QueueConfig, parent: QueueConfig, diagnostics: Diagnostics
) -> None:
    limit = parent.max_applications.value
    own, position = queue.max_applications
    if limit and not 0 < own <= limit:
        allows = f"allows {own} applications" if own else "does not limit its applications"
        message = f"queue {quoted(queue.path)} {allows}, but its parent allows only {limit}"
        remedy = f"set maxapplications from 1 to {limit}"
        diagnostics.error(position or queue.position, message, remedy, queue.path)
