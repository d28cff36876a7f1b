"""Finds node pools and projects that KAI joins with those of another object. Pure.

KAI builds the name PROJECT-NODEPOOL from the label `project` of the pod's top owner, else of the
pod, and from the pod's node pool, unless one of the two has the label of a queue
(`CalcPodGroupQueue` in `default_grouper.go`). An object that has an owner, or a pod without a
project, does not say which project that will be. So a node pool is refused there, unless the
queue's label is beside it in the pod, or in a template of a built-in kind, whose controllers copy
all labels. Operators may copy only some, or remove the queue's. A template that other objects refer
to, or labels that other objects' pods get, may belong to any project. There, a node pool also needs
the queue's label beside it. The same applies to a node pool in an object that refers to such a
template, unless the object's own labels decide. A project that pods of others get may in turn meet
their node pools, so it also needs the queue's label beside it. All this holds for an object within
another one, such as a Workflow in a Sensor, too. In an update, a node pool is refused only if it or
an owner is new: the garbage collector removes owners.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from queuegate_server.admission.queues.kinds import (
    KNOWN_KINDS,
    METADATA_OF_POD_KINDS,
    POD,
    POD_KINDS,
    Kind,
    KnownKind,
)
from queuegate_server.admission.queues.model import (
    UNKNOWN_POOL,
    UNKNOWN_PROJECT,
    UNKNOWN_REFERRER,
    UNKNOWN_TEMPLATE,
    QueueName,
)
from queuegate_server.admission.queues.places import PROJECT, SUBMIT
from queuegate_server.admission.queues.positions import (
    LABELS,
    Trail,
    text_of,
    where,
)
from queuegate_server.admission.queues.properties import Property
from queuegate_server.settings.admission import KaiScheduler

_METADATA: Final = "metadata"
_MAX_HELD: Final = 2_000
"""More than an object may name."""
_ALWAYS: Final = frozenset[str]()
_UNKNOWN_KIND: Final = KnownKind(resource="", role="other")


class _ConditionalName(NamedTuple):
    """A name that counts if an object refers to another one."""

    object: "NodePools"
    name: QueueName


@dataclass(slots=True)
class NodePools:
    """Finds the node pools in one object where their project is unknown, or the reverse."""

    labels: Mapping[str, str]
    """The labels that it finds, each with what stands for the name: UNKNOWN_PROJECT,
    UNKNOWN_REFERRER or UNKNOWN_TEMPLATE for the label of a node pool, UNKNOWN_POOL for that of a
    project."""
    queue_label: str
    """The label of a queue, beside which they are accepted; empty if they never are."""
    metadata: Trail
    """The position of the object's own metadata."""
    in_own: bool
    """Whether the object's own labels are those of its pods."""
    below: bool
    """Whether there may be templates of pods below the object's metadata."""
    new_owners: str
    """Distinguishes the new owners, which make the project unknown again."""
    held: list[_ConditionalName]
    """Gets the names that count only if the object refers to another one."""
    references: frozenset[str] = frozenset()
    """The names count only if a map in the object has one of these members; empty if always."""
    around: "NodePools | None" = None
    """Finds the node pools around this object, if they count only with a reference."""
    refers: bool = False
    """Whether a map in the object has one of the members."""

    def note_reference(self, members: Mapping[str, Any]) -> None:
        """Note whether a map in the object refers to the template of another one."""
        self.refers = self.refers or any(members.get(name) for name in self.references)
        if self.around is not None:
            self.around.note_reference(members)

    def in_labels(self, labels: Mapping[str, Any], above: Trail | None) -> Iterator[QueueName]:
        """Yield a name if labels have a node pool whose project is unknown.

        Args:
            labels: The labels, which are not those of other objects.
            above: The position of the map with the labels.
        """
        is_searched = self.in_own if above == self.metadata else self.below
        if not is_searched or (self.queue_label and text_of(labels.get(self.queue_label))):
            return
        for label in self.labels:
            if text_of(labels.get(label)):
                yield from self._unknown(label, Trail(Trail(above, LABELS), label))

    def in_properties(
        self, properties: Iterable[Property], above: Trail | None
    ) -> Iterator[QueueName]:
        """Yield a name for each node pool that a property sets.

        Args:
            properties: The properties that set labels.
            above: The position of the map with the properties.
        """
        for each in properties:
            if each.key in self.labels and text_of(each.value):
                yield from self._unknown(each.key, Trail(above, each.name))

    def _unknown(self, label: str, trail: Trail) -> Iterator[QueueName]:
        stands_for = self.labels[label]
        found = QueueName(
            *("kai", stands_for, where(trail), SUBMIT), is_read=False, text=self.new_owners
        )
        if not self.references:
            yield found
        elif len(self.held) < _MAX_HELD:
            self.held.append(_ConditionalName(self, found))


class UnknownProjects:
    """Finds node pools whose project is unknown, in an object and in the objects within it.

    Args:
        kai: The settings of KAI.
        known_owners: The owners of the old object.
    """

    def __init__(self, kai: KaiScheduler, known_owners: Collection[str] = ()) -> None:
        self._kai = kai
        self._known_owners = known_owners
        self._held: list[_ConditionalName] = []

    def of_object(
        self,
        kind: Kind,
        value: Mapping[str, Any],
        trail: Trail | None = None,
        around: NodePools | None = None,
    ) -> NodePools | None:
        """Return what finds node pools in an object; None if it would find none.

        Args:
            kind: The object's group and kind.
            value: The object as JSON values.
            trail: The position of an object within the whole one.
            around: What finds node pools around the position.
        """
        if around is not None and not around.references:
            return around  # it finds at least as many
        metadata = Trail(trail, _METADATA)
        owners = owners_of(value)
        is_whole = trail is None
        if owners:
            new = owners.difference(self._known_owners) if is_whole else owners
            found: NodePools | None = self._in_owned(kind, metadata, new)
        elif is_whole and kind == POD and not _has(_own_labels(value), PROJECT):
            found = self._in_owned(kind, metadata, ())
        else:
            found = self._of_template(kind, value, metadata)
        if around is None or found is None:
            return found or around
        # What claims to be an object may be part of the one around it, so both may refer, and its
        # metadata may be that of pods.
        return replace(found, in_own=True, references=_ALWAYS, around=around)

    def held(self) -> Iterator[QueueName]:
        """Yield the names that count because an object refers to another one.

        Yield all if they are too many to know which do.
        """
        is_full = len(self._held) >= _MAX_HELD
        for each in self._held:
            if is_full or each.object.refers:
                yield each.name

    def _in_owned(self, kind: Kind, metadata: Trail, new_owners: Collection[str]) -> NodePools:
        return NodePools(
            labels={self._kai.node_pool_label: UNKNOWN_PROJECT},
            queue_label=self._kai.label if kind in POD_KINDS else "",
            metadata=metadata,
            in_own=kind in METADATA_OF_POD_KINDS,
            below=kind != POD,
            new_owners=",".join(sorted(new_owners)),
            held=self._held,
        )

    def _of_template(
        self, kind: Kind, value: Mapping[str, Any], metadata: Trail
    ) -> NodePools | None:
        """Return what finds node pools in a template, or in an object that refers to one."""
        known = KNOWN_KINDS.get(kind, _UNKNOWN_KIND)
        own = _own_labels(value)
        found = NodePools(
            labels={self._kai.node_pool_label: UNKNOWN_TEMPLATE},
            queue_label=self._kai.label,
            metadata=metadata,
            in_own=kind in METADATA_OF_POD_KINDS,
            below=True,
            new_owners="",
            held=self._held,
            references=_ALWAYS
            if known.refers_by in {None, "always"}
            else frozenset(known.refers_by),
        )
        if known.labels_go_to:
            labels = {self._kai.node_pool_label: UNKNOWN_REFERRER}
            if known.labels_go_to == "any pods":
                labels[PROJECT] = UNKNOWN_POOL
            return replace(found, labels=labels)
        if known.refers_by is None or _has(own, self._kai.label):
            return None
        if not _has(own, PROJECT) or known.template_may_change_project:
            return found
        if known.takes_built_in_templates:
            return replace(found, labels={PROJECT: UNKNOWN_POOL}, in_own=True, below=False)
        return None


def unknown_projects(
    kai: KaiScheduler | None, known_owners: Collection[str] = ()
) -> UnknownProjects | None:
    """Return what finds node pools whose project is unknown; None if KAI joins none.

    Args:
        kai: The settings of KAI; None if it is not listed.
        known_owners: The owners of the old object.
    """
    if kai is None or not kai.project_label:
        return None
    return UnknownProjects(kai, known_owners)


def _own_labels(value: Mapping[str, Any]) -> object:
    metadata = value.get(_METADATA)
    return metadata.get(LABELS) if isinstance(metadata, dict) else None


def _has(labels: object, key: str) -> bool:
    return isinstance(labels, dict) and bool(labels.get(key))


def owners_of(value: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the UIDs of an object's owners."""
    metadata = (value or {}).get(_METADATA)
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    items = owners if isinstance(owners, list) else []
    return frozenset(str(each.get("uid")) for each in items if isinstance(each, dict))
