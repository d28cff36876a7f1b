"""Finds node pools that KAI joins with the project of another object. Pure.

KAI builds the name PROJECT-NODEPOOL from the label `project` of the pod's top owner, else of the
pod, and from the pod's node pool, unless one of the two has the label of a queue
(`CalcPodGroupQueue` in `default_grouper.go`). An object that has an owner, or a pod without a
project, does not say which project that will be. So a node pool is refused there, unless the pod
names its queue beside it. So does a template in a built-in kind, whose controllers copy all labels.
Operators may copy only some, or remove the queue's. A template that other objects refer to, or
labels that other objects' pods get, may belong to any project. There, a node pool also needs the
queue's label beside it. The same applies to a node pool in an object that refers to such a
template, unless the object's own labels decide. In an update, a node pool is refused only if it or
an owner is new: the garbage collector removes owners.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from queuegate_server.admission.queues.kinds import POD, POD_KINDS, Kind
from queuegate_server.admission.queues.model import (
    UNKNOWN_PROJECT,
    UNKNOWN_REFERRER,
    UNKNOWN_TEMPLATE,
    QueueName,
)
from queuegate_server.admission.queues.places import METADATA_OF_POD_KINDS, PROJECT, SUBMIT
from queuegate_server.admission.queues.positions import (
    LABELS,
    OWN_METADATA,
    Trail,
    text_of,
    where,
)
from queuegate_server.admission.queues.properties import Property
from queuegate_server.settings.admission import KaiScheduler

_METADATA: Final = "metadata"
_FOR_OTHERS: Final[frozenset[Kind]] = frozenset(
    (group, kind)
    for group, kinds in (
        (
            "argoproj.io",
            "AnalysisTemplate ClusterAnalysisTemplate ClusterWorkflowTemplate WorkflowTemplate",
        ),
        ("apps.kruise.io", "PodProbeMarker SidecarSet WorkloadSpread"),
        ("config.koordinator.sh", "ClusterColocationProfile"),
        ("extensions.agents.x-k8s.io", "SandboxClaim SandboxTemplate"),
        ("flow.volcano.sh", "JobTemplate"),
        ("kubeflow.org", "PodDefault"),
        ("serving.kserve.io", "ClusterServingRuntime LLMInferenceServiceConfig ServingRuntime"),
        ("tekton.dev", "Pipeline Task"),
        ("trainer.kubeflow.org", "ClusterTrainingRuntime TrainingRuntime"),
        ("workspace.devfile.io", "DevWorkspaceTemplate"),
    )
    for kind in kinds.split()
)
"""Kinds whose templates or labels become those of the pods of other objects, which refer to them or
are selected. A SandboxClaim adds labels to those of its SandboxTemplate."""
_MAX_HELD: Final = 2_000
"""More than an object may name."""
_WORKFLOWS: Final[frozenset[Kind]] = frozenset(
    ("argoproj.io", kind) for kind in ("CronWorkflow", "Workflow")
)
_ALWAYS: Final = frozenset[str]()
_REFERENCES: Final[Mapping[Kind, frozenset[str]]] = {
    **dict.fromkeys(_WORKFLOWS, frozenset({"templateRef", "workflowTemplateRef"})),
    ("argoproj.io", "Rollout"): frozenset({"workloadRef"}),
    ("flow.volcano.sh", "JobFlow"): _ALWAYS,
    ("serving.kserve.io", "InferenceService"): _ALWAYS,
    ("serving.kserve.io", "LLMInferenceService"): frozenset({"baseRefs"}),
    ("tekton.dev", "PipelineRun"): frozenset({"pipelineRef", "taskRef"}),
    ("tekton.dev", "TaskRun"): frozenset({"taskRef"}),
    ("trainer.kubeflow.org", "OptimizationJob"): _ALWAYS,
    ("trainer.kubeflow.org", "TrainJob"): _ALWAYS,
    ("workspace.devfile.io", "DevWorkspace"): frozenset({"contributions", "parent", "plugin"}),
}
"""The members by which objects of a kind refer to the template of another one, if they do not
always: KServe chooses a runtime for an InferenceService that names none."""


@dataclass(slots=True)
class NodePools:
    """Finds the node pools in one object where their project is unknown."""

    label: str
    """The label of a node pool."""
    queue_label: str
    """The label of a queue, beside which a node pool is accepted; empty if it never is."""
    in_own: bool
    """Whether the object's own labels are those of its pods."""
    below: bool
    """Whether there may be templates of pods below the object's metadata."""
    new_owners: str
    """Distinguishes the new owners, which make the project unknown anew."""
    stands_for: str = UNKNOWN_PROJECT
    """What stands for the name: UNKNOWN_PROJECT, UNKNOWN_REFERRER or UNKNOWN_TEMPLATE."""
    references: frozenset[str] = frozenset()
    """The names count only if a map in the object has one of these members; empty if always."""
    _held: list[QueueName] = field(default_factory=list)
    _refers: bool = False

    def note_reference(self, members: Mapping[str, Any]) -> None:
        """Note whether a map in the object refers to the template of another one."""
        self._refers = self._refers or any(members.get(name) for name in self.references)

    def held(self) -> Iterator[QueueName]:
        """Yield the names that count because the object refers to another one."""
        if self._refers:
            yield from self._held

    def in_labels(self, labels: Mapping[str, Any], above: Trail | None) -> Iterator[QueueName]:
        """Yield a name if labels have a node pool whose project is unknown.

        Args:
            labels: The labels, which are not those of other objects.
            above: The position of the map with the labels.
        """
        is_searched = self.in_own if above == OWN_METADATA else self.below
        has_queue = self.queue_label and text_of(labels.get(self.queue_label))
        if is_searched and text_of(labels.get(self.label)) and not has_queue:
            yield from self._unknown(Trail(Trail(above, LABELS), self.label))

    def in_properties(
        self, properties: Iterable[Property], above: Trail | None
    ) -> Iterator[QueueName]:
        """Yield a name for each node pool that a property sets.

        Args:
            properties: The properties that set labels.
            above: The position of the map with the properties.
        """
        for each in properties:
            if each.key == self.label and text_of(each.value):
                yield from self._unknown(Trail(above, each.name))

    def _unknown(self, trail: Trail) -> Iterator[QueueName]:
        found = QueueName(
            *("kai", self.stands_for, where(trail), SUBMIT), is_read=False, text=self.new_owners
        )
        if not self.references:
            yield found
        elif len(self._held) < _MAX_HELD:
            self._held.append(found)


def unknown_projects(
    kind: Kind,
    value: Mapping[str, Any],
    kai: KaiScheduler | None,
    known_owners: Collection[str] = (),
) -> NodePools | None:
    """Return what finds node pools in an object; None if it would find none.

    Args:
        kind: The object's group and kind.
        value: The object as JSON values.
        kai: The settings of KAI; None if it is not listed.
        known_owners: The owners of the old object.
    """
    if kai is None or not kai.project_label:
        return None
    metadata = value.get(_METADATA)
    owners, labels = (
        metadata.get(name) if isinstance(metadata, dict) else None
        for name in ("ownerReferences", LABELS)
    )
    has_project = _has(labels, PROJECT)
    in_own = kind in METADATA_OF_POD_KINDS
    if not owners and kind in _FOR_OTHERS:
        return NodePools(kai.node_pool_label, kai.label, in_own, True, "", UNKNOWN_REFERRER)
    references = _REFERENCES.get(kind)
    if not owners and references is not None:
        # The template of a Workflow may change the Workflow's own project.
        if _has(labels, kai.label) or (has_project and kind not in _WORKFLOWS):
            return None
        return NodePools(
            *(kai.node_pool_label, kai.label, in_own, True, "", UNKNOWN_TEMPLATE, references)
        )
    if not owners and (kind != POD or has_project):
        return None
    new_owners = ",".join(sorted(owners_of(value).difference(known_owners)))
    queue_label = kai.label if kind in POD_KINDS else ""
    return NodePools(kai.node_pool_label, queue_label, in_own, kind != POD, new_owners)


def _has(labels: object, key: str) -> bool:
    return isinstance(labels, dict) and bool(labels.get(key))


def owners_of(value: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the UIDs of an object's owners."""
    metadata = (value or {}).get(_METADATA)
    owners = metadata.get("ownerReferences") if isinstance(metadata, dict) else None
    items = owners if isinstance(owners, list) else []
    return frozenset(str(each.get("uid")) for each in items if isinstance(each, dict))
