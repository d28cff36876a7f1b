"""A queues.yaml as it is decoded: the parts of it that have rules, with their positions.

Fields keep the node they come from where a diagnostic may have to point at it. A value
of the wrong type is reported when it is decoded and stands here as if it were absent;
`name_known` says where that must not lead to a second diagnostic.
"""

from dataclasses import dataclass, field

from queuegate_server.formats.yaml_nodes import Mapping, Node, Scalar

Quantities = dict[str, Scalar]
"""Amounts of resources as they are written, by the name of the resource."""


@dataclass(slots=True, eq=False)
class Count:
    """A number of applications."""

    value: int
    position: Node


@dataclass(slots=True, eq=False)
class Limit:
    """What some users and groups may use at most."""

    position: Mapping
    description: str = ""
    users: list[Scalar] | None = None
    groups: list[Scalar] | None = None
    max_resources: Quantities | None = None
    max_applications: Count | None = None


@dataclass(slots=True, eq=False)
class Resources:
    """What a queue is guaranteed and what it may use at most."""

    position: Node
    guaranteed: Quantities | None = None
    maximum: Quantities | None = None


@dataclass(slots=True, eq=False)
class Queue:
    """A queue. A root that the document leaves out has no position."""

    path: str
    """The full path in lower case, below `root` also where the root is left out."""
    above: "Queue | None"
    position: Mapping | None
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    submit_acl: Scalar | None = None
    admin_acl: Scalar | None = None
    is_parent: bool = False
    """True if it is marked as a parent; it may have children anyway."""
    resources: Resources | None = None
    max_applications: Count | None = None
    limits: list[Limit] = field(default_factory=list)
    template_resources: Resources | None = None
    has_children: bool = False
    """Children know their parent and not the other way round: no cycle keeps a document
    in memory after it was read."""


@dataclass(slots=True, eq=False)
class Filter:
    """Whom a placement rule applies to."""

    position: Node
    kind: Scalar | None = None
    users: list[Scalar] | None = None
    groups: list[Scalar] | None = None


@dataclass(slots=True, eq=False)
class Rule:
    """A placement rule; `parent` says below which queue its queue stands."""

    position: Mapping
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    create: bool = False
    filter: Filter | None = None
    parent: "Rule | None" = None
    value: Scalar | None = None


@dataclass(slots=True, eq=False)
class NodeSortPolicy:
    """How the nodes of a partition are sorted."""

    position: Node
    kind: Scalar | None = None
    weights: dict[str, tuple[float, Scalar]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class PartitionConfig:
    """A partition of the document."""

    position: Mapping
    name: str = ""
    name_known: bool = True
    name_position: Node | None = None
    has_queues: bool = False
    """False if the queues are missing or null; an explicit empty list is fine."""
    queues: list[Queue] = field(default_factory=list)
    """All queues, each after its parent and beginning with the root; empty if the
    document has none or they are not a list."""
    rules: list[Rule] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    node_sort_policy: NodeSortPolicy | None = None
    resolver_type: Scalar | None = None
