"""Loads partitions from a queues.yaml, and reports all errors at once.

The rules for partitions and queues follow `Validate`, `checkQueuesStructure`, `checkQueues` and
`checkQueueMaxApplications` in YuniKorn's `pkg/common/configs/configvalidator.go`. A root queue
spelled `ROOT` is rejected: the validator accepts it, but the scheduler
(`initialPartitionFromConfig`) does not.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.names import DEFAULT_PARTITION, ROOT, is_queue_name
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, PartitionBuilder
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    diagnostic_of,
    has_errors,
    quoted,
    sort_diagnostics,
)
from queuegate_server.formats.findings.table import finding
from queuegate_server.formats.yaml_nodes import ScalarNode
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.acls import AclReader
from queuegate_server.formats.yunikorn.document import decode
from queuegate_server.formats.yunikorn.model import (
    PartitionConfig,
    QueueConfig,
    normalized_name,
)
from queuegate_server.formats.yunikorn.outside_acls import groups_outside_acls
from queuegate_server.formats.yunikorn.placement import check_placement
from queuegate_server.formats.yunikorn.queue_limits import apply_limits_to_root, check_limits
from queuegate_server.formats.yunikorn.queue_resources import check_resources

RESOLVER_TYPES: Final = frozenset({"", "none", "os", "test", "ldap"})
"""The values of `usergroupresolver.type`. YuniKorn treats any other text as `none`."""

NO_PARTITION: Final = frozenset({"no-partition", "empty-queues-yaml"})
"""The findings about a file without a partition."""
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
    are allowed in addition to YuniKorn's types. `has_option` says whether remedies may suggest
    --acl-names.
    """
    document = read_yaml(data, file)
    partitions: list[PartitionConfig] = []
    diagnostics = Diagnostics(file)
    built: dict[str, Partition] = {}
    if document.second is not None:
        diagnostics.add(document.second, finding("second-document"))
    with diagnostics:
        partitions = decode(document.root, diagnostics, has_option=has_option)
        if not partitions and not document.diagnostics and not diagnostics.error_count:
            found = "no-partition" if data.strip() else "empty-queues-yaml"
            diagnostics.add(document.root, finding(found))
        _check_partition_names(partitions, diagnostics)
        for partition in partitions:
            name = normalized_name(partition)
            apply_limits_to_root(partition)
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
                built[name] = _build(partition, queues, names)
    diagnostics_of_file = (*document.diagnostics, *diagnostics.sorted())
    if has_errors(diagnostics_of_file):
        built = {}
    return built, tuple(sort_diagnostics(diagnostics_of_file))


def other_key(file: str, key: str) -> Diagnostic:
    """Return a warning that YuniKorn reads `key` in the ConfigMap instead of `file`."""
    return diagnostic_of(finding("other-key-is-read", key=quoted(key)), file)


def _build(
    partition: PartitionConfig, queues: Sequence[QueueAcls], acl_names: AclNames
) -> Partition:
    """Build a partition without errors. `acl_names` are the names allowed in its ACLs."""
    resolver = partition.resolver_type
    builder = PartitionBuilder(
        normalized_name(partition),
        resolver.text if resolver else "",
        resolver_place=(resolver.line, resolver.column) if resolver else (0, 0),
        acl_names=acl_names,
    )
    builder.add(queues)
    groups, patterns = groups_outside_acls(partition)
    return replace(
        builder.build(),
        childless_parents=frozenset(
            each.path for each in partition.queues if each.is_parent and not each.has_children
        ),
        groups_outside_acls=groups,
        group_patterns=patterns,
    )


def missing_default_partition(file: str, partitions: Collection[str]) -> Iterator[Diagnostic]:
    """Yield a warning if no partition is named `default`. Shims query only that partition."""
    if not partitions or DEFAULT_PARTITION in partitions:
        return
    names = ", ".join(quoted(name) for name in sorted(partitions)[:_MAX_SHOWN_NAMES])
    words = {"default": quoted(DEFAULT_PARTITION), "name": DEFAULT_PARTITION, "names": names}
    yield diagnostic_of(finding("no-default-partition", **words), file)


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
            found = finding("partition-defined-twice", name=quoted(name), line=line)
            diagnostics.add(partition.name.position, found)


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
        found = finding("unknown-resolver-type", type=quoted(resolver.text), known=known)
        diagnostics.add(resolver, found)


def _check_node_sort_policy(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    policy = partition.node_sort_policy
    if policy is None:
        return
    if policy.kind and policy.kind.text and policy.kind.text not in _NODE_SORT_POLICIES:
        words = {"policy": quoted(policy.kind.text), "known": ", ".join(_NODE_SORT_POLICIES)}
        diagnostics.add(policy.kind, finding("unknown-node-sort-policy", **words))
    for name, (weight, position) in policy.weights.items():
        if weight < 0:
            diagnostics.add(position, finding("negative-weight", resource=quoted(name)))


def _check_queues(partition: PartitionConfig, diagnostics: Diagnostics) -> None:
    """Check the structure of the partition's queue tree."""
    stated = partition.position.get("queues")
    if stated is None or (isinstance(stated, ScalarNode) and stated.is_null):
        found = finding("partition-without-queues", name=quoted(normalized_name(partition)))
        diagnostics.add(partition.position, found)
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
        found = finding("root-in-capitals", name=quoted(root.name.text), root=ROOT)
        diagnostics.add(root.name.position, found, root.path)
    resources = root.resources
    if resources and (resources.guaranteed is not None or resources.maximum is not None):
        diagnostics.add(resources.position, finding("resources-of-root"), root.path)


def _check_name(
    queue: QueueConfig, first: dict[str, QueueConfig], diagnostics: Diagnostics
) -> None:
    """Report a name that is not valid, or that another queue already has. `first` contains queues
    by path.
    """
    name, position, _ = queue.name
    if not is_queue_name(name):
        found = finding("invalid-queue-name" if name else "queue-without-name", name=quoted(name))
        diagnostics.add(position, found, queue.path)
        return
    other = first.setdefault(queue.path, queue)
    if other is not queue:
        line = other.position.line if other.position else 0
        found = finding("queue-defined-twice", queue=quoted(queue.path), line=line)
        diagnostics.add(position, found, queue.path)


def _check_max_applications(
    queue: QueueConfig, parent: QueueConfig, diagnostics: Diagnostics
) -> None:
    limit = parent.max_applications.value
    own, position = queue.max_applications
    if limit and not 0 < own <= limit:
        allows = f"allows {own} applications" if own else "does not limit its applications"
        path = quoted(queue.path)
        found = finding("applications-of-child", queue=path, allows=allows, most=limit)
        diagnostics.add(position or queue.position, found, queue.path)
