"""From YAML nodes to the model, with the root queue that a document may omit.

Keys are the lower-case names of the fields in YuniKorn's `pkg/common/configs/config.go`. The
root is added as in `checkQueuesStructure` of `configvalidator.go`.
"""

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
_PARTITION_KEYS: Final = (
    "name",
    "queues",
    "placementrules",
    "limits",
    "preemption",
    "nodesortpolicy",
    "usergroupresolver",
)
_QUEUE_KEYS: Final = frozenset(
    {
        "name",
        "queues",
        "submitacl",
        "adminacl",
        "parent",
        "resources",
        "maxapplications",
        "properties",
        "childtemplate",
        "limits",
    }
)
_LIMIT_KEYS: Final = ("limit", "users", "groups", "maxresources", "maxapplications")
_RESOURCE_KEYS: Final = ("guaranteed", "max")
_TEMPLATE_KEYS: Final = ("maxapplications", "properties", "resources")
_RULE_KEYS: Final = ("name", "create", "filter", "parent", "value")
_FILTER_KEYS: Final = ("type", "users", "groups")
_NODE_SORT_KEYS: Final = ("type", "resourceweights")
_PREEMPTION_KEYS: Final = ("enabled", "quotapreemptionenabled")
_RESOLVER_KEYS: Final = ("type",)
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
    for key, value in fields.entries(mapping, _PARTITION_KEYS, "a partition"):
        match key:
            case "name":
                name = fields.text(key, value)
                partition.name = name.text if name else ""
                partition.name_known = isinstance(value, ScalarNode)
                partition.name_position = value
            case "queues":
                partition.has_queues = not (isinstance(value, ScalarNode) and value.is_null)
                partition.queues = _queue_tree(fields, value)
            case "placementrules":
                partition.rules = _rules(fields, value)
            case "limits":
                partition.limits = _limits(fields, value)
            case "preemption":
                _check_preemption(fields, value)
            case "nodesortpolicy":
                partition.node_sort_policy = _node_sort_policy(fields, value)
            case _:
                partition.resolver_type = _resolver_type(fields, value)
    return partition


def _queue_tree(fields: Fields, node: Node) -> list[QueueConfig]:
    """Return all queues of a partition, the root first and each after its parent."""
    items = fields.items("queues", node)
    if items is None:
        return []
    only = items[0] if len(items) == 1 else None
    name = only.get("name") if isinstance(only, MappingNode) else None
    queues: list[QueueConfig] = []
    root: QueueConfig | None = None
    if not isinstance(name, ScalarNode) or name.text.lower() != ROOT:
        root = QueueConfig(ROOT, None, None, name=ROOT, is_parent=True)
        queues.append(root)
    fields.queue = ROOT
    stack = [(root, mapping) for mapping in reversed(fields.mappings("queues", node))]
    while stack:
        parent, mapping = stack.pop()
        queue, children = _queue(fields, parent, mapping)
        queues.append(queue)
        stack.extend((queue, child) for child in reversed(children))
    fields.queue = ""
    return queues


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
        if key == "queues":
            children = fields.mappings(key, value)
        else:
            _set_queue_field(fields, queue, key, value)
    queue.is_parent = queue.is_parent or parent is None
    return queue, children


def _set_queue_field(fields: Fields, queue: QueueConfig, key: str, node: Node) -> None:
    match key:
        case "name":
            fields.text(key, node)
            queue.name_known = isinstance(node, ScalarNode)
        case "submitacl":
            queue.submit_acl = fields.text(key, node)
        case "adminacl":
            queue.admin_acl = fields.text(key, node)
        case "parent":
            queue.is_parent = fields.boolean(key, node)
        case "resources":
            queue.resources = _resources(fields, node)
        case "maxapplications":
            queue.max_applications = fields.count(key, node)
        case "properties":
            fields.text_map(key, node)
        case "childtemplate":
            queue.template_resources = _template_resources(fields, node)
        case _:
            queue.limits = _limits(fields, node)


def _limits(fields: Fields, node: Node) -> list[Limit]:
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


def _resources(fields: Fields, node: Node) -> Resources | None:
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


def _template_resources(fields: Fields, node: Node) -> Resources | None:
    """Return the resources of a child template, which are all of it that has rules."""
    mapping = fields.mapping("childtemplate", node)
    found = None
    for key, value in fields.entries(mapping, _TEMPLATE_KEYS, "a child template"):
        match key:
            case "maxapplications":
                fields.count(key, value)
            case "properties":
                fields.text_map(key, value)
            case _:
                found = _resources(fields, value)
    return found


def _rules(fields: Fields, node: Node) -> list[PlacementRule]:
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


def _node_sort_policy(fields: Fields, node: Node) -> NodeSortPolicy | None:
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


def _resolver_type(fields: Fields, node: Node) -> ScalarNode | None:
    mapping = fields.mapping("usergroupresolver", node)
    found = None
    for key, value in fields.entries(mapping, _RESOLVER_KEYS, "a resolver"):
        found = fields.text(key, value)
    return found
