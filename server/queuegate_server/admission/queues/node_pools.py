"""Finds node pools and projects that KAI may combine with those of another object. Pure.

KAI builds the name PROJECT-NODEPOOL from the pod's node pool and the `project` label of the pod's
top owner or, if the owner lacks it, of the pod, unless either of them has a queue label
(`CalcPodGroupQueue` in `default_grouper.go`).

A node pool is refused if its project is unknown, and a project if its node pool is unknown, unless
the queue label is next to it:

- In an object that has an owner, or in a pod without a project, the node pool's project is unknown.
  The queue label helps only in a pod and in a template of a built-in kind, whose controllers copy
  all labels. Operators may copy only some labels, or remove the queue label.
- A template that other objects refer to, or labels that other objects' pods get, may be combined
  with any project.
- An object that refers to such a template may get the template's project for its node pool, unless
  the object's own labels decide: the queue label, or a project that the template cannot change.
- A project that other objects' pods get may be combined with their node pools.
- The same rules apply to an object within another one, such as a Workflow in a Sensor.
- In an update, a node pool is refused only if it or an owner is new, because the garbage collector
  removes owners.
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
from queuegate_server.admission.server.webhook_limits import MAX_FOUND
from queuegate_server.settings.queue_schedulers import KaiScheduler

_METADATA: Final = "metadata"
_MAX_CONDITIONAL: Final = 2 * MAX_FOUND
"""The maximum number of conditional names to keep. If there are more, all of them count, so the
object is refused.
"""
_UNKNOWN_KIND: Final = KnownKind(resource="", role="other")


class _ConditionalName(NamedTuple):
    """A name that counts only if its object refers to another object."""

    object: "NodePools"
    name: QueueName


@dataclass(slots=True)
class NodePools:
    """Finds, in an object, the node pools whose project is unknown, or the projects whose node pool
    is unknown.
    """

    labels: Mapping[str, str]
    """The labels to find, each with the placeholder for the name: UNKNOWN_PROJECT, UNKNOWN_REFERRER
    or UNKNOWN_TEMPLATE for the label of a node pool, UNKNOWN_POOL for that of a project."""
    queue_label: str
    """The queue label, next to which the labels are accepted; empty if they are never accepted."""
    metadata: Trail
    """The position of the object's own metadata."""
    searches_own_labels: bool
    """Whether to search the object's own labels, because its pods get them."""
    searches_templates: bool
    """Whether to search the labels in the object's pod templates."""
    new_owners: str
    """The UIDs of the new owners. Each name contains them, so that an update with a new owner,
    which may have another project, counts as naming a new queue.
    """
    conditional: list[_ConditionalName]
    """Collects the names that count only if the object refers to another object."""
    references: frozenset[str] | None = None
    """The names count only if a map in the object has one of these members; None if they always
    count."""
    around: "NodePools | None" = None
    """The finder for the object around this object, if that object's names count only with a
    reference.
    """
    refers: bool = False
    """Whether a map in the object has one of the members."""

    def note_reference(self, members: Mapping[str, Any]) -> None:
        """Record whether a map in the object refers to another object's template."""
        self.refers = self.refers or any(members.get(name) for name in self.references or ())
        if self.around is not None:
            self.around.note_reference(members)

    def in_labels(self, labels: Mapping[str, Any], above: Trail | None) -> Iterator[QueueName]:
        """Yield a name if labels have a node pool whose project is unknown.

        Args:
            labels: The labels of the object or its pods, not of other objects.
            above: The position of the map with the labels.
        """
        is_own = above == self.metadata
        is_searched = self.searches_own_labels if is_own else self.searches_templates
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
            "kai", stands_for, where(trail), SUBMIT, is_read=False, text=self.new_owners
        )
        if self.references is None:
            yield found
        elif len(self.conditional) < _MAX_CONDITIONAL:
            self.conditional.append(_ConditionalName(self, found))


class UnknownProjects:
    """Finds node pools whose project is unknown, in an object and in the objects within it.

    Args:
        kai: KAI's settings.
        known_owners: The owners of the old object.
    """

    def __init__(self, kai: KaiScheduler, known_owners: Collection[str] = ()) -> None:
        self._kai = kai
        self._known_owners = known_owners
        self._conditional: list[_ConditionalName] = []

    def of_object(
        self,
        kind: Kind,
        value: Mapping[str, Any],
        trail: Trail | None = None,
        around: NodePools | None = None,
    ) -> NodePools | None:
        """Return a finder for the node pools in an object; None if it would find none.

        Args:
            kind: The object's group and kind.
            value: The object as JSON values.
            trail: The position of an object within the whole one.
            around: The finder for the object around the position, if any.
        """
        if around is not None and around.references is None:
            return around  # It finds at least as many node pools.
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
        # A map that looks like an object may be just a part of the object around it. So either may
        # contain the reference, and the map's metadata may belong to pods.
        return replace(found, searches_own_labels=True, references=None, around=around)

    def conditional_names(self) -> Iterator[QueueName]:
        """Yield the names that count because an object refers to another object. Yield all names if
        there were too many to keep.
        """
        is_full = len(self._conditional) >= _MAX_CONDITIONAL
        for each in self._conditional:
            if is_full or each.object.refers:
                yield each.name

    def _in_owned(self, kind: Kind, metadata: Trail, new_owners: Collection[str]) -> NodePools:
        return NodePools(
            labels={self._kai.node_pool_label: UNKNOWN_PROJECT},
            queue_label=self._kai.label if kind in POD_KINDS else "",
            metadata=metadata,
            searches_own_labels=kind in METADATA_OF_POD_KINDS,
            searches_templates=kind != POD,
            new_owners=",".join(sorted(new_owners)),
            conditional=self._conditional,
        )

    def _of_template(
        self, kind: Kind, value: Mapping[str, Any], metadata: Trail
    ) -> NodePools | None:
        """Return a finder for the node pools in a template, or in an object that refers to one."""
        known = KNOWN_KINDS.get(kind, _UNKNOWN_KIND)
        labels = self._unknown_labels(known, _own_labels(value))
        if not labels:
            return None
        # A built-in template does not need a queue label next to its node pool, so only the project
        # that would be combined with that pool is searched: the object's own.
        own_only = UNKNOWN_POOL in labels.values() and not known.labels_go_to
        is_conditional = known.refers_by not in {None, "always"}
        return NodePools(
            labels=labels,
            queue_label=self._kai.label,
            metadata=metadata,
            searches_own_labels=own_only or kind in METADATA_OF_POD_KINDS,
            searches_templates=not own_only,
            new_owners="",
            conditional=self._conditional,
            references=frozenset(known.refers_by or ()) if is_conditional else None,
        )

    def _unknown_labels(self, known: KnownKind, own: object) -> dict[str, str]:
        """Return the labels of the object's pods that may be joined with another object's labels.

        Each comes with the placeholder for the name that KAI builds. `own` contains the object's
        own labels.
        """
        node_pool = self._kai.node_pool_label
        if known.labels_go_to == "any pods":
            return {node_pool: UNKNOWN_REFERRER, PROJECT: UNKNOWN_POOL}
        if known.labels_go_to == "referrers":
            return {node_pool: UNKNOWN_REFERRER}
        if known.refers_by is None or _has(own, self._kai.label):
            return {}
        if known.template_may_change_project or not _has(own, PROJECT):
            return {node_pool: UNKNOWN_TEMPLATE}
        return {PROJECT: UNKNOWN_POOL} if known.takes_built_in_templates else {}


def unknown_projects(
    kai: KaiScheduler | None, known_owners: Collection[str] = ()
) -> UnknownProjects | None:
    """Return a finder for node pools whose project is unknown; None if KAI does not use projects.

    Args:
        kai: KAI's settings; None if it is not listed.
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
