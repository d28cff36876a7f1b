"""queues.yaml -> partitions, with everything that is wrong in it reported at once."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from queuegate.policy.acl import AclNames, parse
from queuegate.policy.tree import Partition, PartitionBuilder, QueueAcls
from queuegate_server.formats.diagnostics import (
    Diagnostic,
    Diagnostics,
    TooManyErrors,
    has_errors,
    quoted,
    sort_diagnostics,
)
from queuegate_server.formats.yaml_reader import read_yaml
from queuegate_server.formats.yunikorn.acls import AclReader
from queuegate_server.formats.yunikorn.decode import decode
from queuegate_server.formats.yunikorn.limits import check_limits
from queuegate_server.formats.yunikorn.model import PartitionConfig
from queuegate_server.formats.yunikorn.placement import check_placement
from queuegate_server.formats.yunikorn.queues import (
    check_partition_names,
    check_queues,
    normalized_name,
)
from queuegate_server.formats.yunikorn.resources import check_resources

RESOLVER_TYPES: Final = frozenset({"", "none", "os", "test", "ldap"})
"""The values of `usergroupresolver.type`. YuniKorn reads any other text as `none`."""

NO_PARTITION: Final = "the document defines no partition: every request will be answered NOT_FOUND"
_NODE_SORT_POLICIES: Final = ("binpacking", "fair")


def load_queues(
    data: bytes,
    file: str,
    *,
    acl_names: Callable[[str], AclNames],
    resolver_types: frozenset[str] = RESOLVER_TYPES,
) -> tuple[Mapping[str, Partition], tuple[Diagnostic, ...]]:
    """Return the partitions by name, and all diagnostics; no partitions after an error.

    `acl_names` selects which names ACLs may list, by the name of the partition;
    `resolver_types` are accepted beside those of YuniKorn.
    """
    document = read_yaml(data, file)
    partitions: list[PartitionConfig] = []
    diagnostics = Diagnostics(file)
    built = {}
    if document.second is not None:
        message = "a second YAML document starts here; only the first one is read"
        diagnostics.warning(document.second, message, "put everything into one document")
    try:
        partitions = decode(document.root, diagnostics)
        if not partitions and not document.diagnostics and not diagnostics.error_count:
            diagnostics.warning(document.root, NO_PARTITION, "add a partition under partitions")
        check_partition_names(partitions, diagnostics)
        for partition in partitions:
            name = normalized_name(partition.name)
            _check_partition(partition, RESOLVER_TYPES | resolver_types, diagnostics)
            names = acl_names(name)
            queues = _read_acls(partition, AclReader(names, diagnostics))
            if not document.diagnostics and not diagnostics.error_count:
                resolver = partition.resolver_type
                kind = resolver.text if resolver else ""
                position = (resolver.line, resolver.column) if resolver else (0, 0)
                builder = PartitionBuilder(
                    name, kind, resolver_place=position, parse_acl=partial(parse, names=names)
                )
                builder.add(queues)
                built[name] = builder.build()
    except TooManyErrors:
        pass
    found = (*document.diagnostics, *diagnostics.sorted())
    if has_errors(found):
        built = {}
    return built, tuple(sort_diagnostics(found))


def _read_acls(partition: PartitionConfig, reader: AclReader) -> list[QueueAcls]:
    return [
        QueueAcls(
            queue.path,
            reader.check(queue.submit_acl, queue.path),
            reader.check(queue.admin_acl, queue.path),
        )
        for queue in partition.queues
    ]


def _check_partition(
    partition: PartitionConfig, resolver_types: frozenset[str], diagnostics: Diagnostics
) -> None:
    check_queues(partition, diagnostics)
    check_resources(partition, diagnostics)
    check_placement(partition, diagnostics)
    check_limits(partition, diagnostics)
    _check_node_sort_policy(partition, diagnostics)
    resolver = partition.resolver_type
    if resolver and resolver.text not in resolver_types:
        known = ", ".join(sorted(resolver_types - {""}))
        message = f"{quoted(resolver.text)} is not a type of resolver"
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
