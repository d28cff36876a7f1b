"""From YAML nodes to the model, with the root queue that a document may omit.

Keys are the lower-case names of the fields in YuniKorn's `pkg/common/configs/config.go`. The
root is added as in `checkQueuesStructure` of `configvalidator.go`.
"""

from collections.abc import Callable
from typing import Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.yaml_reader import MappingNode, Node, ScalarNode
from queuegate_server.formats.yunikorn.fields import Fields
from queuegate_server.formats.yunikorn.model import (
    Filter,
    Limit,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    Resources,
)

_DOCUMENT_KEYS: Final = ("partitions", "checksum")
_NAMELESS: Final = "?"


def decode(root: Node | None, diagnostics: Diagnostics) -> list[PartitionConfig]:
    """Return the partitions of a document, without what is invalid in them."""
    fields = Fields(diagnostics)
    mapping = fields.mapping("the document", root) if root else None
    partitions: list[PartitionConfig] = []
    for key, value in fields.entries(mapping, _DOCUMENT_KEYS, "the document"):
        if key == "partitions":
            partitions = [_partition(fields, item) for item in fields.mappings(key, value)]
        else:
            fields.text(key, value)
    return partitions


def _partition(fields: Fields, mapping: MappingNode) -> PartitionConfig:
    partition = PartitionConfig(mapping)
    for key, value in fields.entries(mapping, _PARTITION_FIELDS, "a partition"):
        _PARTITION_FIELDS[key](fields, partition, value)
    return partition


def _partition_name(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    name = fields.text("name", node)
    partition.name = name.text if name else ""
    partition.name_known = isinstance(node, ScalarNode)
    partition.name_position = node


def _partition_queues(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.has_queues = not (isinstance(node, ScalarNode) and node.is_null)
    items = fields.items("queues", node)
    if items is None:
        return
    fields.queue = ROOT
    only = items[0] if len(items) == 1 else None
    name = only.get("name") if isinstance(only, MappingNode) else None
    tops = fields.mappings("queues", node)
    if isinstance(name, ScalarNode) and name.text.lower() == ROOT:
        partition.queues = _queues(fields, [], None, tops)
    else:
        root = QueueConfig(ROOT, None, None, name=ROOT, is_parent=True)
        partition.queues = _queues(fields, [root], root, tops)
    fields.queue = ""


def _queues(
    fields: Fields, found: list[QueueConfig], parent: QueueConfig | None, tops: list[MappingNode]
) -> list[QueueConfig]:
    """Decode queues and all below them, each after its parent, without recursion."""
    stack = [(parent, mapping) for mapping in reversed(tops)]
    while stack:
        parent, mapping = stack.pop()
        queue, children = _queue(fields, parent, mapping)
        found.append(queue)
        stack.extend((queue, child) for child in reversed(children))
    return found


def _queue(
    fields: Fields, parent: QueueConfig | None, mapping: MappingNode
) -> tuple[QueueConfig, list[MappingNode]]:
    """Return a queue, and its children to decode."""
    node = mapping.get("name")
    name = node.text if isinstance(node, ScalarNode) and not node.is_null else ""
    path = f"{parent.path}{SEPARATOR}{name.lower() or _NAMELESS}" if parent else ROOT
    queue = QueueConfig(path, parent, mapping, name=name, name_position=node)
    if parent:
        parent.has_children = True
    fields.queue = path
    children: list[MappingNode] = []
    for key, value in fields.entries(mapping, _QUEUE_KEYS, "a queue"):
        if key == _QUEUES:
            children = fields.mappings(key, value)
        else:
            _QUEUE_FIELDS[key](fields, queue, value)
    queue.is_parent = queue.is_parent or parent is None
    return queue, children


def _queue_name(fields: Fields, queue: QueueConfig, node: Node) -> None:
    fields.text("name", node)
    queue.name_known = isinstance(node, ScalarNode)


def _submit_acl(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.submit_acl = fields.text("submitacl", node)


def _admin_acl(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.admin_acl = fields.text("adminacl", node)


def _is_parent(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.is_parent = fields.boolean("parent", node)


def _queue_resources(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.resources = _decode_resources(fields, node)


def _max_applications(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.max_applications = fields.count("maxapplications", node)


def _properties(fields: Fields, _queue: QueueConfig, node: Node) -> None:
    fields.text_map("properties", node)


def _child_template(fields: Fields, queue: QueueConfig, node: Node) -> None:
    queue.template_resources = _decode_template_resources(fields, node)


def _limits(fields: Fields, owner: QueueConfig | PartitionConfig, node: Node) -> None:
    owner.limits = _decode_limits(fields, node)


def _rules(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.rules = _decode_rules(fields, node)


def _preemption(fields: Fields, _partition: PartitionConfig, node: Node) -> None:
    _check_preemption(fields, node)


def _node_sort_policy(fields: Fields, partition: PartitionConfig, node: Node) -> None:
    partition.node_sort_policy = _decode_node_sort_policy(fields, node)


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
_QUEUE_FIELDS: Final[dict[str, Callable[[Fields, QueueConfig, Node], None]]] = {
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


_LIMIT_KEYS: Final = ("limit", "users", "groups", "maxresources", "maxapplications")
_RESOURCE_KEYS: Final = ("guaranteed", "max")
_TEMPLATE_KEYS: Final = ("maxapplications", "properties", "resources")
_RULE_KEYS: Final = ("name", "create", "filter", "parent", "value")
_FILTER_KEYS: Final = ("type", "users", "groups")
_NODE_SORT_KEYS: Final = ("type", "resourceweights")
_PREEMPTION_KEYS: Final = ("enabled", "quotapreemptionenabled")


def _decode_limits(fields: Fields, node: Node) -> list[Limit]:
    """Return the limits of a queue or partition."""
    return [_limit(fields, mapping) for mapping in fields.mappings("limits", node)]


def _limit(fields: Fields, mapping: MappingNode) -> Limit:
    limit = Limit(mapping)
    for key, value in fields.entries(mapping, _LIMIT_KEYS, "a limit"):
        match key:
            case "limit":
                description = fields.text(key, value)
                limit.description = description.text if description else ""
            case "users":
                limit.users = fields.texts(key, value)
            case "groups":
                limit.groups = fields.texts(key, value)
            case "maxresources":
                limit.max_resources = fields.text_map(key, value)
            case _:
                limit.max_applications = fields.count(key, value)
    return limit


def _decode_resources(fields: Fields, node: Node) -> Resources | None:
    """Return the resources of a queue or a child template."""
    mapping = fields.mapping("resources", node)
    if mapping is None:
        return None
    found = Resources(mapping)
    for key, value in fields.entries(mapping, _RESOURCE_KEYS, "resources"):
        if key == "guaranteed":
            found.guaranteed = fields.text_map(key, value)
        else:
            found.maximum = fields.text_map(key, value)
    return found


def _decode_template_resources(fields: Fields, node: Node) -> Resources | None:
    """Return the resources of a child template, which are all of it that has rules."""
    mapping = fields.mapping("childtemplate", node)
    found = None
    for key, value in (
        fields.entries(mapping, _TEMPLATE_KEYS, "a child template") if mapping else ()
    ):
        match key:
            case "maxapplications":
                fields.count(key, value)
            case "properties":
                fields.text_map(key, value)
            case _:
                found = _decode_resources(fields, value)
    return found


def _decode_rules(fields: Fields, node: Node) -> list[PlacementRule]:
    """Return the placement rules of a partition, with their parents."""
    found = []
    for mapping in fields.mappings("placementrules", node):
        rule, parent = _rule(fields, mapping)
        found.append(rule)
        while parent is not None:
            rule.parent, parent = _rule(fields, parent)
            rule = rule.parent
    return found


def _rule(fields: Fields, mapping: MappingNode) -> tuple[PlacementRule, MappingNode | None]:
    """Return a rule, and its parent to decode."""
    rule = PlacementRule(mapping)
    parent = None
    for key, value in fields.entries(mapping, _RULE_KEYS, "a placement rule"):
        match key:
            case "name":
                name = fields.text(key, value)
                rule.name_position = value
                rule.name = name.text if name else ""
                rule.name_known = isinstance(value, ScalarNode)
            case "create":
                rule.create = fields.boolean(key, value)
            case "filter":
                rule.filter = _filter(fields, value)
            case "value":
                rule.value = fields.text(key, value)
            case _:
                parent = fields.mapping(key, value)
    return rule, parent


def _filter(fields: Fields, node: Node) -> Filter | None:
    mapping = fields.mapping("filter", node)
    if mapping is None:
        return None
    found = Filter(mapping)
    for key, value in fields.entries(mapping, _FILTER_KEYS, "a filter"):
        match key:
            case "type":
                found.kind = fields.text(key, value)
            case "users":
                found.users = fields.texts(key, value)
            case _:
                found.groups = fields.texts(key, value)
    return found


def _decode_node_sort_policy(fields: Fields, node: Node) -> NodeSortPolicy | None:
    """Return the node sort policy of a partition."""
    mapping = fields.mapping("nodesortpolicy", node)
    if mapping is None:
        return None
    found = NodeSortPolicy(mapping)
    for key, value in fields.entries(mapping, _NODE_SORT_KEYS, "a node sort policy"):
        if key == "type":
            found.kind = fields.text(key, value)
        else:
            found.weights = fields.float_map(key, value)
    return found


def _check_preemption(fields: Fields, node: Node) -> None:
    """Check the types of the preemption settings, which have no rules."""
    mapping = fields.mapping("preemption", node)
    for key, value in fields.entries(mapping, _PREEMPTION_KEYS, "preemption"):
        fields.boolean(key, value)
