"""Determines what the labels and annotations in a map belong to. Pure.

The rules come from Kubernetes, Argo Workflows, the Spark operator, the AppWrapper operator
(`appwrapper_types.go`), AgentCube (`agent_type.go`), Grove (`PodCliqueTemplateSpec`), KServe
(`ComponentExtensionSpec`), Koordinator (`cluster_colocation_profile_types.go`), Kubeflow's
PodDefault, KubeRay (`HeadGroupSpec`, `WorkerGroupSpec`), LeaderWorkerSet (`DisaggregatedRoleSpec`),
OpenShift (`deployer_controller.go`), Seldon Core (`createDeploymentWithoutEngine`), and Kubeflow's
Trainer, whose TrainJob has `spec.labels` for the JobSet and its Jobs (`trainjob_types.go`), and
whose runtimes have a JobSet's metadata (`trainingruntime_types.go`).
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from queuegate_server.admission.queues.kinds import KNOWN_KINDS, Kind

METADATA: Final = "metadata"
_METADATA_OF_PODS: Final = "Metadata"
"""The suffixes of members that hold pod metadata, such as Argo's `podMetadata`."""
_SELECTORS: Final = ("selector", "Selector")
"""The suffixes of members whose labels describe other objects. Metadata below them is
still searched, because users choose the keys in some maps of templates, such as Kubeflow's
`pytorchReplicaSpecs`."""
_SPEC: Final = "spec"
_TEMPLATES: Final = ("template", "jobTemplate")
_CLAIMS: Final = frozenset({"volumeClaimTemplate", "volumeClaimTemplates"})
_SPARK_GROUPS: Final = frozenset({"spark.apache.org", "sparkoperator.k8s.io"})
_SPARK_PODS: Final = frozenset({"driver", "executor"})
_HEAD_GROUP: Final = "headGroupSpec"
"""A member of a RayCluster that has labels for a pod."""
_SETS_OF_PODS: Final = frozenset({"cliques", "markerPolicy", "podSetInfos", "workerGroupSpecs"})
"""Lists whose items have labels for pods, in Grove's kinds, Kruise's PodProbeMarker, an AppWrapper
and a RayCluster."""
_LABELS_OF_PODS: Final = frozenset(
    {
        "apps.openshift.io",
        "config.koordinator.sh",
        "machinelearning.seldon.io",
        "nvidia.com",
        "run.ai",
        "runtime.agentcube.volcano.sh",
        "serving.kserve.io",
    }
)
"""API groups whose kinds have members with various names that hold labels for pods."""
_POD_DEFAULT: Final[Kind] = ("kubeflow.org", "PodDefault")
_WORKFLOW_METADATA: Final = "workflowMetadata"
"""A member of Argo's kinds that has labels for a Workflow, which Argo does not copy to pods."""
_TRAIN_JOB: Final[Kind] = ("trainer.kubeflow.org", "TrainJob")
_TRAIN_JOB_TEMPLATE: Final = "trainJobTemplate"
"""A member of an OptimizationJob that has the metadata and specification of a TrainJob."""
WITHIN: Final[Mapping[Kind, Sequence[str]]] = {
    kind: known.contains_objects_at
    for kind, known in KNOWN_KINDS.items()
    if known.contains_objects_at
}
"""Where objects of a kind contain other objects: Workflows, LeaderWorkerSets, JobSets, TrainJobs,
or objects of any kind.
"""


class MapRole(Enum):
    """What a map's labels and annotations belong to."""

    OTHER = auto()
    OBJECT = auto()
    """The object itself, or an object in it that an operator creates as written."""
    OWNER = auto()
    """Objects that own pods and may be created from a template."""
    POD = auto()
    """Pods that may be created from a template."""
    OTHERS_LABELS = auto()
    """Other objects, which the map selects."""


def embedded_kind(members: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a map if it is an object, such as a component of an AppWrapper."""
    version = members.get("apiVersion")
    kind = members.get("kind")
    if not (isinstance(version, str) and isinstance(kind, str) and version and kind):
        return None
    return version.rpartition("/")[0], kind


def is_spark(kind: Kind | None) -> bool:
    """Return whether objects of a kind contain the pods of a Spark application."""
    return kind is not None and kind[0] in _SPARK_GROUPS


def role_of(
    name: str,
    members: Mapping[str, Any],
    kind: Kind | None,
    above: str,
    *,
    owner: Kind,
    is_object: bool,
    in_spark: bool,
) -> MapRole:
    """Return the role of a map's member.

    Args:
        name: The member's name.
        members: The map.
        kind: The map's kind if it is an object.
        above: The name of the member that holds the map, directly or in a list.
        owner: The kind of the object, or of the object within it, to which the map belongs.
        is_object: Whether the map is the whole object, or an object within it, as in `WITHIN`.
        in_spark: Whether the map is in an object of the Spark operator.
    """
    if name == METADATA:
        if is_object:
            return MapRole.OBJECT
        # Spark's custom resource keeps unknown members, which could make its pods look like Jobs.
        return MapRole.POD if in_spark else _role_of_metadata(members, above)
    if name == _WORKFLOW_METADATA or (
        name == _SPEC and (kind == _TRAIN_JOB or above == _TRAIN_JOB_TEMPLATE)
    ):
        return MapRole.OWNER
    if (
        name.endswith(_METADATA_OF_PODS)
        or (in_spark and name in _SPARK_PODS)
        or name == _HEAD_GROUP
    ):
        return MapRole.POD
    if _is_of_pods(owner):
        return MapRole.POD  # before selectors, because users choose the names of some members
    return MapRole.OTHERS_LABELS if name.endswith(_SELECTORS) else MapRole.OTHER


def role_of_items(name: str, owner: Kind) -> MapRole:
    """Return the role of a list's items.

    Args:
        name: The name of the member that holds the list.
        owner: The kind of the object, or of the object within it, to which the list belongs.
    """
    return MapRole.POD if name in _SETS_OF_PODS or _is_of_pods(owner) else MapRole.OTHER


def _is_of_pods(owner: Kind) -> bool:
    """Return whether a kind has members with various names that hold labels for pods."""
    return owner[0] in _LABELS_OF_PODS or owner == _POD_DEFAULT


def _role_of_metadata(members: Mapping[str, Any], above: str) -> MapRole:
    """Return the role of metadata below an object's top-level metadata.

    Such metadata is treated as pod metadata unless it certainly belongs to a volume claim, or to a
    Job or another object with a template. The members with pod templates have various names, and a
    template need not list containers.
    """
    spec = members.get(_SPEC)
    if isinstance(spec, dict):
        if "containers" in spec:
            return MapRole.POD
        if any(isinstance(spec.get(name), dict) for name in _TEMPLATES):
            return MapRole.OWNER
    return MapRole.OTHER if above in _CLAIMS else MapRole.POD
