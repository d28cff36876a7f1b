"""The model of a queues.yaml: the parts that have rules, with their positions.

A field keeps its node where a diagnostic may have to refer to it. A value of the wrong type is
reported when it is decoded and is absent here; `name_known` is False where that must not lead
to a second diagnostic.
"""

from dataclasses import dataclass, field

from queuegate_server.formats.yaml_reader import MappingNode, Node, ScalarNode

Quantities = dict[str, ScalarNode]
"""The texts of amounts, by the name of the resource."""


@dataclass(slots=True, eq=False)
class Count:
    """A number of applications."""

    value: int
    position: Node


@dataclass(slots=True, eq=False)
class Limit:
    """A limit on what some users and groups may use."""

    position: MappingNode
    description: str = ""
    users: list[ScalarNode] | None = None
    groups: list[ScalarNode] | None = None
    max_resources: Quantities | None = None
    max_applications: Count | None = None


@dataclass(slots=True, eq=False)
class Resources:
    """The guaranteed and the maximum resources of a queue."""

    position: Node
    guaranteed: Quantities | None = None
    maximum: Quantities | None = None


@dataclass(slots=True, eq=False)
class QueueConfig:
    """A queue. A root that the document omits has no position."""

    path: str
    """The full path in lower case, below `root` even where the document omits the root."""
    parent: "QueueConfig | None"
    position: MappingNode | None
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    submit_acl: ScalarNode | None = None
    admin_acl: ScalarNode | None = None
    is_parent: bool = False
    """True if it is marked as a parent; other queues may have children, too."""
    resources: Resources | None = None
    max_applications: Count | None = None
    limits: list[Limit] = field(default_factory=list)
    template_resources: Resources | None = None
    has_children: bool = False
    """Children refer to their parent and not vice versa, so no cycle keeps a document in
    memory."""


@dataclass(slots=True, eq=False)
class Filter:
    """The users and groups that a placement rule applies to."""

    position: Node
    kind: ScalarNode | None = None
    users: list[ScalarNode] | None = None
    groups: list[ScalarNode] | None = None


@dataclass(slots=True, eq=False)
class PlacementRule:
    """A placement rule; `parent` places the parent of its queue."""

    position: MappingNode
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    create: bool = False
    filter: Filter | None = None
    parent: "PlacementRule | None" = None
    value: ScalarNode | None = None


@dataclass(slots=True, eq=False)
class NodeSortPolicy:
    """How the nodes of a partition are sorted."""

    position: Node
    kind: ScalarNode | None = None
    weights: dict[str, tuple[float, ScalarNode]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PartitionConfig:
    """A partition of the document."""

    position: MappingNode
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    has_queues: bool = False
    """False if the queues are missing or null; an empty list is valid."""
    queues: list[QueueConfig] = field(default_factory=list)
    """All queues, the root first and each after its parent; empty if the document has none or
    they are not a list."""
    rules: list[PlacementRule] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    node_sort_policy: NodeSortPolicy | None = None
    resolver_type: ScalarNode | None = None
