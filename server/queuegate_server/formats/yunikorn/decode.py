"""From YAML nodes to the model, with the root queue that a document may leave out.

Keys are the lower-case names of the fields in YuniKorn's `pkg/common/configs/config.go`;
when the root is added tells `checkQueuesStructure` in `configvalidator.go`.
"""

from collections.abc import Callable
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.yaml_nodes import Mapping, Node, Scalar
from queuegate_server.formats.yunikorn import sections
from queuegate_server.formats.yunikorn.fields import Fields
from queuegate_server.formats.yunikorn.model import PartitionConfig, Queue

_DOCUMENT_KEYS: Final = ("partitions", "checksum")
_NAMELESS: Final = "?"


def decode(root: Node | None, diagnostics: Diagnostics) -> list[PartitionConfig]:
    """Return the partitions of a document, as far as they can be understood."""
    fields = Fields(diagnostics)
    mapping = fields.mapping("the document", root) if root else None
    partitions: list[PartitionConfig] = []
    for key, value in fields.entries(mapping, _DOCUMENT_KEYS, "the document"):
        if key == "partitions":
            partitions = [_partition(fields, item) for item in fields.mappings(key, value)]
        else:
            fields.text(key, value)
    return partitions


def _partition(fields: Fields, mapping: Mapping) -> PartitionConfig:
    partition = PartitionConfig(mapping)
    for key, value in fields.entries(mapping, _PARTITION_FIELDS, "a partition"):
        _PARTITION_FIELDS[key](fields, partition, value)
    return partition


def _partition_name(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    name = fields.text("name", node)
    partition.name = name.text if name else ""
    partition.name_known = isinstance(node, Scalar)
    partition.name_position = node


def _partition_queues(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.has_queues = not (isinstance(node, Scalar) and node.is_null)
    items = fields.items("queues", node)
    if items is None:
        return
    fields.queue = ROOT
    only = items[0] if len(items) == 1 else None
    name = only.get("name") if isinstance(only, Mapping) else None
    tops = fields.mappings("queues", node)
    if isinstance(name, Scalar) and name.text.lower() == ROOT:
        partition.queues = _queues(fields, [], None, tops)
    else:
        root = Queue(ROOT, None, None, name=ROOT, is_parent=True)
        partition.queues = _queues(fields, [root], root, tops)
    fields.queue = ""


def _queues(
    fields: Fields, found: list[Queue], above: Queue | None, tops: list[Mapping]
) -> list[Queue]:
    """Decode queues and all below them, each after its parent; without recursion."""
    waiting = [(above, mapping) for mapping in reversed(tops)]
    while waiting:
        above, mapping = waiting.pop()
        queue, below = _queue(fields, above, mapping)
        found.append(queue)
        waiting.extend((queue, child) for child in reversed(below))
    return found


def _queue(fields: Fields, above: Queue | None, mapping: Mapping) -> tuple[Queue, list[Mapping]]:
    """Decode one queue; return it with what is still to be decoded below it."""
    node = mapping.get("name")
    name = node.text if isinstance(node, Scalar) and not node.is_null else ""
    path = f"{above.path}{SEPARATOR}{name.lower() or _NAMELESS}" if above else ROOT
    queue = Queue(path, above, mapping, name=name, name_position=node)
    if above:
        above.has_children = True
    fields.queue = path
    below: list[Mapping] = []
    for key, value in fields.entries(mapping, _QUEUE_KEYS, "a queue"):
        if key == _QUEUES:
            below = fields.mappings(key, value)
        else:
            _QUEUE_FIELDS[key](fields, queue, value)
    queue.is_parent = queue.is_parent or above is None
    return queue, below


def _queue_name(fields: Fields, queue: Queue, node: Node) -> None:
    fields.text("name", node)
    queue.name_known = isinstance(node, Scalar)


def _submit_acl(fields: Fields, queue: Queue, node: Node) -> None:
    queue.submit_acl = fields.text("submitacl", node)


def _admin_acl(fields: Fields, queue: Queue, node: Node) -> None:
    queue.admin_acl = fields.text("adminacl", node)


def _is_parent(fields: Fields, queue: Queue, node: Node) -> None:
    queue.is_parent = fields.truth("parent", node)


def _queue_resources(fields: Fields, queue: Queue, node: Node) -> None:
    queue.resources = sections.resources(fields, node)


def _max_applications(fields: Fields, queue: Queue, node: Node) -> None:
    queue.max_applications = fields.count("maxapplications", node)


def _properties(fields: Fields, _queue: Queue, node: Node) -> None:
    fields.text_map("properties", node)


def _child_template(fields: Fields, queue: Queue, node: Node) -> None:
    queue.template_resources = sections.template_resources(fields, node)


def _limits(fields: Fields, owner: Queue | PartitionConfig, node: Node) -> None:
    owner.limits = sections.limits(fields, node)


def _rules(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.rules = sections.rules(fields, node)


def _preemption(fields: Fields, _partition: PartitionConfig, node: Node) -> None:
    sections.check_preemption(fields, node)


def _node_sort_policy(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.node_sort_policy = sections.node_sort_policy(fields, node)


def _resolver(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    mapping = fields.mapping("usergroupresolver", node)
    for key, value in fields.entries(mapping, ("type",), "a resolver"):
        partition.resolver_type = fields.text(key, value)


_PARTITION_FIELDS: Final[dict[str, Callable[[Fields, PartitionConfig, Node], None]]] = {
    "name": _partition_name,
    "queues": _partition_queues,
    "placementrules": _rules,
    "limits": _limits,
    "preemption": _preemption,
    "nodesortpolicy": _node_sort_policy,
    "usergroupresolver": _resolver,
}
_QUEUE_FIELDS: Final[dict[str, Callable[[Fields, Queue, Node], None]]] = {
    "name": _queue_name,
    "parent": _is_parent,
    "resources": _queue_resources,
    "maxapplications": _max_applications,
    "properties": _properties,
    "adminacl": _admin_acl,
    "submitacl": _submit_acl,
    "childtemplate": _child_template,
    "limits": _limits,
}
_QUEUES: Final = "queues"
_QUEUE_KEYS: Final = frozenset({*_QUEUE_FIELDS, _QUEUES})
