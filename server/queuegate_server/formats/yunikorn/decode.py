"""From YAML nodes to the model, with the root queue that a document may omit.

Keys are the lower-case names of the fields in YuniKorn's `pkg/common/configs/config.go`. The
root is added as in `checkQueuesStructure` of `configvalidator.go`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from queuegate.policy.names import ROOT, SEPARATOR
from queuegate_server.formats.diagnostics import Diagnostics
from queuegate_server.formats.yaml_reader import MappingNode, Node, ScalarNode
from queuegate_server.formats.yunikorn.fields import Fields, Readers, ValueReader
from queuegate_server.formats.yunikorn.model import (
    Filter,
    Limit,
    NodeSortPolicy,
    PartitionConfig,
    PlacementRule,
    QueueConfig,
    Resources,
)

_NAMELESS: Final = "?"


def decode(root: Node | None, diagnostics: Diagnostics) -> list[PartitionConfig]:
    """Return the partitions of a document, without what is invalid in them."""
    return _document(Fields(diagnostics), "the document", root) or [] if root else []


@dataclass(slots=True)
class _Section:
    """A mapping of which at most one value is needed."""

    value: Any = None


def _value_of(what: str, readers: Readers) -> ValueReader:
    """Return a reader of a mapping that returns the attribute `value` of it."""

    def read(fields: Fields, key: str, node: Node) -> Any:
        return fields.fill(_Section(), fields.mapping(key, node), readers, what).value

    return read


def _section(model: Callable[[MappingNode], object], what: str, readers: Readers) -> ValueReader:
    """Return a reader of a mapping as an instance of a model; None if it is null or invalid."""

    def read(fields: Fields, key: str, node: Node) -> object:
        mapping = fields.mapping(key, node)
        return mapping and fields.fill(model(mapping), mapping, readers, what)

    return read


def _name(mapping: MappingNode) -> tuple[str, bool, Node | None]:
    """Return the name in a mapping, whether its type is valid, and its node."""
    node = mapping.get("name")
    if isinstance(node, ScalarNode):
        return "" if node.is_null else node.text, True, node
    return "", node is None, node


def _read_later(_fields: Fields, _key: str, _node: Node) -> None:
    """Read nothing: the value belongs to another object."""


def _description(fields: Fields, key: str, node: Node) -> str:
    text = fields.text(key, node)
    return text.text if text else ""


_LIMIT: Final[Readers] = {
    "limit": ("description", _description),
    "users": ("users", Fields.texts),
    "groups": ("groups", Fields.texts),
    "maxresources": ("max_resources", Fields.text_map),
    "maxapplications": ("max_applications", Fields.count),
}


def _limits(fields: Fields, key: str, node: Node) -> list[Limit]:
    return [
        fields.fill(Limit(mapping), mapping, _LIMIT, "a limit")
        for mapping in fields.mappings(key, node)
    ]


_resources = _section(
    Resources,
    "resources",
    {"guaranteed": ("guaranteed", Fields.text_map), "max": ("maximum", Fields.text_map)},
)
# The resources are all of a child template that has rules.
_template_resources = _value_of(
    "a child template",
    {
        "maxapplications": ("", Fields.count),
        "properties": ("", Fields.text_map),
        "resources": ("value", _resources),
    },
)
_QUEUE: Final[Readers] = {
    "name": ("", Fields.text),
    "queues": ("", _read_later),
    "submitacl": ("submit_acl", Fields.text),
    "adminacl": ("admin_acl", Fields.text),
    "parent": ("is_parent", Fields.boolean),
    "resources": ("resources", _resources),
    "maxapplications": ("max_applications", Fields.count),
    "properties": ("", Fields.text_map),
    "childtemplate": ("template_resources", _template_resources),
    "limits": ("limits", _limits),
}


def _queue_tree(fields: Fields, key: str, node: Node) -> list[QueueConfig]:
    """Return all queues of a partition, the root first and each after its parent."""
    items = fields.items(key, node)
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
    stack = [(root, mapping) for mapping in reversed(fields.mappings(key, node))]
    while stack:
        parent, mapping = stack.pop()
        queue = _queue(fields, parent, mapping)
        queues.append(queue)
        below = mapping.get("queues")
        if below is not None:
            stack.extend((queue, child) for child in reversed(fields.mappings("queues", below)))
    fields.queue = ""
    return queues


def _queue(fields: Fields, parent: QueueConfig | None, mapping: MappingNode) -> QueueConfig:
    """Return a queue without its children."""
    name = _name(mapping)
    path = f"{parent.path}{SEPARATOR}{name[0].lower() or _NAMELESS}" if parent else ROOT
    queue = QueueConfig(path, parent, mapping, *name)
    if parent:
        parent.has_children = True
    fields.queue = path
    fields.fill(queue, mapping, _QUEUE, "a queue")
    queue.is_parent = queue.is_parent or parent is None
    return queue


_RULE: Final[Readers] = {
    "name": ("", Fields.text),
    "create": ("create", Fields.boolean),
    "filter": (
        "filter",
        _section(
            Filter,
            "a filter",
            {
                "type": ("kind", Fields.text),
                "users": ("users", Fields.texts),
                "groups": ("groups", Fields.texts),
            },
        ),
    ),
    "parent": ("", _read_later),
    "value": ("value", Fields.text),
}


def _rules(fields: Fields, key: str, node: Node) -> list[PlacementRule]:
    """Return the placement rules of a partition, with their parents."""
    found = []
    for mapping in fields.mappings(key, node):
        rule, parent = _rule(fields, mapping)
        found.append(rule)
        while parent is not None:
            rule.parent, parent = _rule(fields, parent)
            rule = rule.parent
    return found


def _rule(fields: Fields, mapping: MappingNode) -> tuple[PlacementRule, MappingNode | None]:
    """Return a rule, and its parent to decode."""
    rule = PlacementRule(mapping, *_name(mapping))
    fields.fill(rule, mapping, _RULE, "a placement rule")
    parent = mapping.get("parent")
    return rule, fields.mapping("parent", parent) if parent else None


_PARTITION: Final[Readers] = {
    "name": ("", Fields.text),
    "queues": ("queues", _queue_tree),
    "placementrules": ("rules", _rules),
    "limits": ("limits", _limits),
    "preemption": (
        "",
        _value_of(
            "preemption",
            {"enabled": ("", Fields.boolean), "quotapreemptionenabled": ("", Fields.boolean)},
        ),
    ),
    "nodesortpolicy": (
        "node_sort_policy",
        _section(
            NodeSortPolicy,
            "a node sort policy",
            {"type": ("kind", Fields.text), "resourceweights": ("weights", Fields.float_map)},
        ),
    ),
    "usergroupresolver": (
        "resolver_type",
        _value_of("a resolver", {"type": ("value", Fields.text)}),
    ),
}


def _partitions(fields: Fields, key: str, node: Node) -> list[PartitionConfig]:
    found = []
    for mapping in fields.mappings(key, node):
        partition = PartitionConfig(mapping, *_name(mapping))
        queues = mapping.get("queues")
        partition.has_queues = queues is not None and not (
            isinstance(queues, ScalarNode) and queues.is_null
        )
        found.append(fields.fill(partition, mapping, _PARTITION, "a partition"))
    return found


_document = _value_of(
    "the document", {"partitions": ("value", _partitions), "checksum": ("", Fields.text)}
)
