"""Decodes a queues.yaml from YAML nodes into a model.

The model contains only fields that are validated, with their nodes where diagnostics need them. A
value of the wrong type is reported and then treated as absent.

Keys are the lower-case field names of YuniKorn's `pkg/common/configs/config.go`. A missing root
queue is added, as in `checkQueuesStructure` in `configvalidator.go`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from queuegate.policy.names import DEFAULT_PARTITION, ROOT, SEPARATOR, is_group_name, is_user_name
from queuegate_server.formats.findings.table import phrase
from queuegate_server.formats.yaml_nodes import MappingNode, Node, ScalarNode
from queuegate_server.formats.yunikorn.value_readers import (
    NO_COUNT,
    Count,
    Fields,
    Readers,
    ValueReader,
)

Texts = dict[str, ScalarNode]
"""Strings by name, such as properties."""
Quantities = Texts
"""Unparsed amounts by resource name."""

IS_NAME: Final = {"user": is_user_name, "group": is_group_name}
"""Validators for names in limits and filters, by kind."""
_NAMELESS: Final = "?"
_MAX_PATH_PART: Final = 100
"""The maximum length of a queue name in a path. Valid names are shorter. The limit saves memory
because an invalid name is repeated in the paths of all queues below."""


class Name(NamedTuple):
    """The name of a partition, queue or rule."""

    text: str
    position: Node | None
    """The name's node, or the object's node if it has no name; None for an implicit root queue."""
    is_known: bool = True
    """False if the name is not text. This has already been reported."""


def _name(mapping: MappingNode) -> Name:
    node = mapping.get("name")
    if isinstance(node, ScalarNode):
        return Name("" if node.is_null else node.text, node)
    return Name("", node or mapping, is_known=node is None)


def _section(model: Callable[..., object], what: str, readers: Readers) -> ValueReader:
    """Return a reader that decodes a mapping into `model`.

    The reader returns None if the mapping is null or invalid.
    """

    def read(fields: Fields, key: str, node: Node) -> object:
        mapping = fields.mapping(key, node)
        return mapping and model(mapping, **fields.values(mapping, readers, what))

    return read


def value_of(what: str, readers: Readers) -> ValueReader:
    """Return a reader that decodes a mapping and returns only its `value` attribute."""
    return _section(lambda _, value=None: value, what, readers)


def _read_later(_fields: Fields, _key: str, _node: Node) -> None:
    """Skip the value, because the caller decodes it."""


@dataclass(slots=True, eq=False)
class Limit:
    """A limit on usage by the listed users and groups."""

    position: MappingNode
    description: str = ""
    users: list[ScalarNode] | None = None
    groups: list[ScalarNode] | None = None
    max_resources: Quantities | None = None
    max_applications: Count = NO_COUNT


def _description(fields: Fields, key: str, node: Node) -> str:
    text = fields.text(key, node)
    return text.text if text else ""


SUBJECTS: Final[Readers] = {"users": ("users", Fields.texts), "groups": ("groups", Fields.texts)}
LIMIT: Final[Readers] = {
    "limit": ("description", _description),
    **SUBJECTS,
    "maxresources": ("max_resources", Fields.text_map),
    "maxapplications": ("max_applications", Fields.count),
}


def _limits(fields: Fields, key: str, node: Node) -> list[Limit]:
    mappings = fields.mappings(key, node)
    return [Limit(each, **fields.values(each, LIMIT, "a limit")) for each in mappings]


@dataclass(slots=True, eq=False)
class Resources:
    """A queue's guaranteed and maximum resources."""

    position: Node
    guaranteed: Quantities | None = None
    maximum: Quantities | None = None


_resources = _section(
    Resources,
    "resources",
    {"guaranteed": ("guaranteed", Fields.text_map), "max": ("maximum", Fields.text_map)},
)


@dataclass(slots=True, eq=False)
class ChildTemplate:
    """The settings that a parent queue's dynamic children get."""

    position: MappingNode
    resources: Resources | None = None
    properties: Texts | None = None
    max_applications: Count = NO_COUNT

    @property
    def is_used(self) -> bool:
        """Whether YuniKorn reads the template (`isChildTemplateEmpty` in its `template.go`)."""
        maps = [self.properties]
        if self.resources:
            maps += [self.resources.guaranteed, self.resources.maximum]
        return self.max_applications.value != 0 or any(
            name and value.text for entries in maps for name, value in (entries or {}).items()
        )


@dataclass(slots=True, eq=False)
class QueueConfig:
    """A queue. An implicit root has no position."""

    path: str
    """The full path in lower case, including an implicit root."""
    parent: "QueueConfig | None"
    """None for the root. Parents do not refer to their children, because a cycle would keep the
    document in memory."""
    position: MappingNode | None
    name: Name
    submit_acl: ScalarNode | None = None
    admin_acl: ScalarNode | None = None
    is_parent: bool = False
    """Whether the queue is marked as a parent. Unmarked queues may also have children."""
    resources: Resources | None = None
    max_applications: Count = NO_COUNT
    limits: list[Limit] = field(default_factory=list)
    template: ChildTemplate | None = None
    has_children: bool = False


def _acl(fields: Fields, key: str, node: Node) -> ScalarNode | None:
    return fields.text(key, node, phrase("acl-as-text"))


QUEUE: Final[Readers] = {
    "name": ("", Fields.text),
    "queues": ("", _read_later),
    "submitacl": ("submit_acl", _acl),
    "adminacl": ("admin_acl", _acl),
    "parent": ("is_parent", Fields.boolean),
    "resources": ("resources", _resources),
    "maxapplications": ("max_applications", Fields.count),
    "properties": ("", Fields.text_map),
    "childtemplate": (
        "template",
        _section(
            ChildTemplate,
            "a child template",
            {
                "maxapplications": ("max_applications", Fields.count),
                "properties": ("properties", Fields.text_map),
                "resources": ("resources", _resources),
            },
        ),
    ),
    "limits": ("limits", _limits),
}


def _queue_tree(fields: Fields, key: str, node: Node) -> list[QueueConfig]:
    """Return all queues in the partition, each after its parent."""
    items = fields.items(key, node)
    if items is None:
        return []
    only = items[0] if len(items) == 1 else None
    name = only.get("name") if isinstance(only, MappingNode) else None
    queues: list[QueueConfig] = []
    root: QueueConfig | None = None
    if not isinstance(name, ScalarNode) or name.text.lower() != ROOT:
        root = QueueConfig(ROOT, None, None, Name(ROOT, None), is_parent=True)
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
    """Decode a queue without its child queues."""
    name = _name(mapping)
    part = name.text[:_MAX_PATH_PART].lower() or _NAMELESS
    path = f"{parent.path}{SEPARATOR}{part}" if parent else ROOT
    fields.queue = path
    queue = QueueConfig(path, parent, mapping, name, **fields.values(mapping, QUEUE, "a queue"))
    if parent:
        parent.has_children = True
    else:
        queue.is_parent = True
    return queue


@dataclass(slots=True, eq=False)
class Filter:
    """The users and groups to which a placement rule applies."""

    position: Node
    kind: ScalarNode | None = None
    users: list[ScalarNode] | None = None
    groups: list[ScalarNode] | None = None


@dataclass(slots=True, eq=False)
class PlacementRule:
    """A placement rule. `parent` is the rule that selects the parent queue."""

    position: MappingNode
    name: Name
    create: bool = False
    filter: Filter | None = None
    parent: "PlacementRule | None" = None
    value: ScalarNode | None = None


RULE: Final[Readers] = {
    "name": ("", Fields.text),
    "create": ("create", Fields.boolean),
    "filter": (
        "filter",
        _section(
            Filter,
            "a filter",
            {"type": ("kind", Fields.text), **SUBJECTS},
        ),
    ),
    "parent": ("", _read_later),
    "value": ("value", Fields.text),
}


def _rules(fields: Fields, key: str, node: Node) -> list[PlacementRule]:
    """Return the partition's placement rules, each with its chain of parents."""
    rules = []
    for mapping in fields.mappings(key, node):
        rule, parent = _rule(fields, mapping)
        rules.append(rule)
        while parent is not None:
            rule.parent, parent = _rule(fields, parent)
            rule = rule.parent
    return rules


def _rule(fields: Fields, mapping: MappingNode) -> tuple[PlacementRule, MappingNode | None]:
    """Return the decoded rule, and its parent's undecoded mapping, if any."""
    values = fields.values(mapping, RULE, "a placement rule")
    parent = mapping.get("parent")
    return (
        PlacementRule(mapping, _name(mapping), **values),
        fields.mapping("parent", parent) if parent else None,
    )


@dataclass(slots=True, eq=False)
class NodeSortPolicy:
    """The sort order of a partition's nodes."""

    position: Node
    kind: ScalarNode | None = None
    weights: dict[str, tuple[float, ScalarNode]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PartitionConfig:
    """A partition in the document."""

    position: MappingNode
    name: Name
    queues: list[QueueConfig] = field(default_factory=list)
    """All queues, each after its parent; empty if there is no list."""
    rules: list[PlacementRule] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    node_sort_policy: NodeSortPolicy | None = None
    resolver_type: ScalarNode | None = None


def normalized_name(partition: PartitionConfig) -> str:
    """Return YuniKorn's name for the partition; empty and `DEFAULT` both become `default`."""
    name = partition.name.text
    return DEFAULT_PARTITION if not name or name.lower() == DEFAULT_PARTITION else name


PARTITION: Final[Readers] = {
    "name": ("", Fields.text),
    "queues": ("queues", _queue_tree),
    "placementrules": ("rules", _rules),
    "limits": ("limits", _limits),
    "preemption": (
        "",
        value_of(
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
        value_of("a resolver", {"type": ("value", Fields.text)}),
    ),
}


def read_partitions(fields: Fields, key: str, node: Node) -> list[PartitionConfig]:
    """Decode the list of partitions, omitting invalid values."""
    partitions = []
    for each in fields.mappings(key, node):
        partition = PartitionConfig(each, _name(each))
        fields.partition = normalized_name(partition)
        values = fields.values(each, PARTITION, "a partition")
        partitions.append(replace(partition, **values))
    return partitions


DOCUMENT: Final[Readers] = {
    "partitions": ("value", read_partitions),
    "checksum": ("", Fields.text),
}
