"""The resources of the kinds that the API server always asks about. Pure.

A rule of a webhook names resources (`jobs`), while objects and settings name kinds (`Job`).

The rules contain the subresources that can write labels, annotations or a field that is searched
(`PrepareForUpdate` of each strategy in `kube-apiserver`): `status` of all kinds; `finalize` of
Namespaces, which restores only the status; and `binding` of pods, whose metadata becomes the pod's.
They do not contain `resize` and `ephemeralcontainers`, which restore the pod's metadata; `scale`,
`eviction` and `token`, whose objects are of other kinds; and `exec`, `attach`, `portforward`,
`proxy` and `log`, which write no object.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from queuegate_server.admission.queues.kinds import (
    NAMESPACE,
    POD_KINDS,
    RESOURCE_CLAIM_TEMPLATE,
    WORKLOAD_KINDS,
    Kind,
)
from queuegate_server.admission.queues.places import FieldPlace, Places
from queuegate_server.settings.admission import Mode

Resource = tuple[str, str]
"""An API group, empty for the core group, and the plural name of a resource."""

RESOURCES: Final[Mapping[Kind, str]] = {
    ("", "Namespace"): "namespaces",
    ("", "Pod"): "pods",
    ("", "PodTemplate"): "podtemplates",
    ("", "ReplicationController"): "replicationcontrollers",
    ("agents.x-k8s.io", "Sandbox"): "sandboxes",
    ("amlarc.azureml.com", "AmlJob"): "amljobs",
    ("apps", "DaemonSet"): "daemonsets",
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("apps.kruise.io", "AdvancedCronJob"): "advancedcronjobs",
    ("apps.kruise.io", "BroadcastJob"): "broadcastjobs",
    ("apps.kruise.io", "CloneSet"): "clonesets",
    ("apps.kruise.io", "DaemonSet"): "daemonsets",
    ("apps.kruise.io", "PodProbeMarker"): "podprobemarkers",
    ("apps.kruise.io", "SidecarSet"): "sidecarsets",
    ("apps.kruise.io", "StatefulSet"): "statefulsets",
    ("apps.kruise.io", "UnitedDeployment"): "uniteddeployments",
    ("apps.kruise.io", "WorkloadSpread"): "workloadspreads",
    ("apps.openshift.io", "DeploymentConfig"): "deploymentconfigs",
    ("argoproj.io", "AnalysisRun"): "analysisruns",
    ("argoproj.io", "AnalysisTemplate"): "analysistemplates",
    ("argoproj.io", "ClusterAnalysisTemplate"): "clusteranalysistemplates",
    ("argoproj.io", "ClusterWorkflowTemplate"): "clusterworkflowtemplates",
    ("argoproj.io", "CronWorkflow"): "cronworkflows",
    ("argoproj.io", "EventBus"): "eventbus",
    ("argoproj.io", "EventSource"): "eventsources",
    ("argoproj.io", "Experiment"): "experiments",
    ("argoproj.io", "Rollout"): "rollouts",
    ("argoproj.io", "Sensor"): "sensors",
    ("argoproj.io", "Workflow"): "workflows",
    ("argoproj.io", "WorkflowEventBinding"): "workfloweventbindings",
    ("argoproj.io", "WorkflowTemplate"): "workflowtemplates",
    ("batch", "CronJob"): "cronjobs",
    ("batch", "Job"): "jobs",
    ("batch.paddlepaddle.org", "PaddleJob"): "paddlejobs",
    ("batch.volcano.sh", "CronJob"): "cronjobs",
    ("batch.volcano.sh", "Job"): "jobs",
    ("build.openshift.io", "Build"): "builds",
    ("build.openshift.io", "BuildConfig"): "buildconfigs",
    ("clone.kubevirt.io", "VirtualMachineClone"): "virtualmachineclones",
    ("config.koordinator.sh", "ClusterColocationProfile"): "clustercolocationprofiles",
    ("disaggregatedset.x-k8s.io", "DisaggregatedSet"): "disaggregatedsets",
    ("egx.nvidia.io", "SPOTRequest"): "spotrequests",
    ("execution.kubegene.io", "Execution"): "executions",
    ("export.kubevirt.io", "VirtualMachineExport"): "virtualmachineexports",
    ("extensions.agents.x-k8s.io", "SandboxClaim"): "sandboxclaims",
    ("extensions.agents.x-k8s.io", "SandboxTemplate"): "sandboxtemplates",
    ("flink.apache.org", "FlinkBlueGreenDeployment"): "flinkbluegreendeployments",
    ("flink.apache.org", "FlinkDeployment"): "flinkdeployments",
    ("flow.volcano.sh", "JobFlow"): "jobflows",
    ("flow.volcano.sh", "JobTemplate"): "jobtemplates",
    ("grove.io", "PodClique"): "podcliques",
    ("grove.io", "PodCliqueSet"): "podcliquesets",
    ("grove.io", "PodGangSet"): "podgangsets",
    ("instancetype.kubevirt.io", "VirtualMachineClusterInstancetype"): (
        "virtualmachineclusterinstancetypes"
    ),
    ("instancetype.kubevirt.io", "VirtualMachineClusterPreference"): (
        "virtualmachineclusterpreferences"
    ),
    ("instancetype.kubevirt.io", "VirtualMachineInstancetype"): "virtualmachineinstancetypes",
    ("instancetype.kubevirt.io", "VirtualMachinePreference"): "virtualmachinepreferences",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("keda.sh", "ScaledJob"): "scaledjobs",
    ("kubeflow.org", "Experiment"): "experiments",
    ("kubeflow.org", "JAXJob"): "jaxjobs",
    ("kubeflow.org", "MPIJob"): "mpijobs",
    ("kubeflow.org", "MXJob"): "mxjobs",
    ("kubeflow.org", "Notebook"): "notebooks",
    ("kubeflow.org", "PaddleJob"): "paddlejobs",
    ("kubeflow.org", "PodDefault"): "poddefaults",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs",
    ("kubeflow.org", "ScheduledWorkflow"): "scheduledworkflows",
    ("kubeflow.org", "Suggestion"): "suggestions",
    ("kubeflow.org", "TFJob"): "tfjobs",
    ("kubeflow.org", "Trial"): "trials",
    ("kubeflow.org", "XGBoostJob"): "xgboostjobs",
    ("kubernetes.dask.org", "DaskCluster"): "daskclusters",
    ("kubernetes.dask.org", "DaskJob"): "daskjobs",
    ("kubernetes.dask.org", "DaskWorkerGroup"): "daskworkergroups",
    ("kubevirt.io", "VirtualMachine"): "virtualmachines",
    ("kubevirt.io", "VirtualMachineInstance"): "virtualmachineinstances",
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): "virtualmachineinstancereplicasets",
    ("kueue.x-k8s.io", "ClusterQueue"): "clusterqueues",
    ("kueue.x-k8s.io", "Cohort"): "cohorts",
    ("kueue.x-k8s.io", "LocalQueue"): "localqueues",
    ("kueue.x-k8s.io", "Workload"): "workloads",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets",
    ("machinelearning.seldon.io", "SeldonDeployment"): "seldondeployments",
    ("mindspore.gitee.com", "MSJob"): "msjobs",
    ("nvidia.com", "DynamoCheckpoint"): "dynamocheckpoints",
    ("nvidia.com", "DynamoComponentDeployment"): "dynamocomponentdeployments",
    ("nvidia.com", "DynamoGraphDeployment"): "dynamographdeployments",
    ("nvidia.com", "DynamoGraphDeploymentRequest"): "dynamographdeploymentrequests",
    ("pool.kubevirt.io", "VirtualMachinePool"): "virtualmachinepools",
    ("quota.koordinator.sh", "ElasticQuotaProfile"): "elasticquotaprofiles",
    ("ray.io", "RayCluster"): "rayclusters",
    ("ray.io", "RayCronJob"): "raycronjobs",
    ("ray.io", "RayJob"): "rayjobs",
    ("ray.io", "RayService"): "rayservices",
    ("resource.k8s.io", "ResourceClaimTemplate"): "resourceclaimtemplates",
    ("run.ai", "DistributedInferenceWorkload"): "distributedinferenceworkloads",
    ("run.ai", "DistributedWorkload"): "distributedworkloads",
    ("run.ai", "InferenceWorkload"): "inferenceworkloads",
    ("run.ai", "InteractiveWorkload"): "interactiveworkloads",
    ("run.ai", "RunaiJob"): "runaijobs",
    ("run.ai", "TrainingWorkload"): "trainingworkloads",
    ("run.ai", "WorkloadRunner"): "workloadrunners",
    ("runtime.agentcube.volcano.sh", "AgentRuntime"): "agentruntimes",
    ("runtime.agentcube.volcano.sh", "CodeInterpreter"): "codeinterpreters",
    ("scheduling.koordinator.sh", "PodMigrationJob"): "podmigrationjobs",
    ("scheduling.koordinator.sh", "Reservation"): "reservations",
    ("scheduling.run.ai", "PodGroup"): "podgroups",
    ("scheduling.run.ai", "Queue"): "queues",
    ("scheduling.volcano.sh", "PodGroup"): "podgroups",
    ("scheduling.volcano.sh", "Queue"): "queues",
    ("serving.knative.dev", "Configuration"): "configurations",
    ("serving.knative.dev", "Revision"): "revisions",
    ("serving.knative.dev", "Service"): "services",
    ("serving.kserve.io", "ClusterServingRuntime"): "clusterservingruntimes",
    ("serving.kserve.io", "InferenceGraph"): "inferencegraphs",
    ("serving.kserve.io", "InferenceService"): "inferenceservices",
    ("serving.kserve.io", "LLMInferenceService"): "llminferenceservices",
    ("serving.kserve.io", "LLMInferenceServiceConfig"): "llminferenceserviceconfigs",
    ("serving.kserve.io", "ServingRuntime"): "servingruntimes",
    ("snapshot.kubevirt.io", "VirtualMachineRestore"): "virtualmachinerestores",
    ("snapshot.kubevirt.io", "VirtualMachineSnapshotContent"): "virtualmachinesnapshotcontents",
    ("spark.apache.org", "SparkApplication"): "sparkapplications",
    ("spark.apache.org", "SparkCluster"): "sparkclusters",
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): "scheduledsparkapplications",
    ("sparkoperator.k8s.io", "SparkApplication"): "sparkapplications",
    ("sparkoperator.k8s.io", "SparkConnect"): "sparkconnects",
    ("tekton.dev", "Pipeline"): "pipelines",
    ("tekton.dev", "PipelineRun"): "pipelineruns",
    ("tekton.dev", "Task"): "tasks",
    ("tekton.dev", "TaskRun"): "taskruns",
    ("template.openshift.io", "TemplateInstance"): "templateinstances",
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): "clustertrainingruntimes",
    ("trainer.kubeflow.org", "OptimizationJob"): "optimizationjobs",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs",
    ("trainer.kubeflow.org", "TrainingRuntime"): "trainingruntimes",
    ("training.volcano.sh", "HyperJob"): "hyperjobs",
    ("workload.codeflare.dev", "AppWrapper"): "appwrappers",
    ("workload.serving.volcano.sh", "ModelBooster"): "modelboosters",
    ("workload.serving.volcano.sh", "ModelServing"): "modelservings",
    ("workspace.devfile.io", "DevWorkspace"): "devworkspaces",
    ("workspace.devfile.io", "DevWorkspaceTemplate"): "devworkspacetemplates",
}
"""The resource of each kind in the places of the schedulers, and of each kind with templates."""

TEMPLATE_KINDS: Final[Sequence[Kind]] = (
    ("apps.kruise.io", "PodProbeMarker"),
    ("apps.kruise.io", "SidecarSet"),
    ("apps.kruise.io", "WorkloadSpread"),
    ("argoproj.io", "AnalysisTemplate"),
    ("argoproj.io", "ClusterAnalysisTemplate"),
    ("argoproj.io", "ClusterWorkflowTemplate"),
    ("argoproj.io", "EventBus"),
    ("argoproj.io", "EventSource"),
    ("argoproj.io", "Sensor"),
    ("argoproj.io", "WorkflowEventBinding"),
    ("argoproj.io", "WorkflowTemplate"),
    ("build.openshift.io", "Build"),
    ("build.openshift.io", "BuildConfig"),
    ("clone.kubevirt.io", "VirtualMachineClone"),
    ("config.koordinator.sh", "ClusterColocationProfile"),
    ("extensions.agents.x-k8s.io", "SandboxClaim"),
    ("extensions.agents.x-k8s.io", "SandboxTemplate"),
    ("flow.volcano.sh", "JobFlow"),
    ("flow.volcano.sh", "JobTemplate"),
    ("instancetype.kubevirt.io", "VirtualMachineClusterInstancetype"),
    ("instancetype.kubevirt.io", "VirtualMachineClusterPreference"),
    ("instancetype.kubevirt.io", "VirtualMachineInstancetype"),
    ("instancetype.kubevirt.io", "VirtualMachinePreference"),
    ("kubeflow.org", "PodDefault"),
    ("nvidia.com", "DynamoGraphDeploymentRequest"),
    ("scheduling.koordinator.sh", "PodMigrationJob"),
    ("scheduling.koordinator.sh", "Reservation"),
    ("serving.kserve.io", "ClusterServingRuntime"),
    ("serving.kserve.io", "LLMInferenceServiceConfig"),
    ("serving.kserve.io", "ServingRuntime"),
    ("snapshot.kubevirt.io", "VirtualMachineRestore"),
    ("snapshot.kubevirt.io", "VirtualMachineSnapshotContent"),
    ("tekton.dev", "Pipeline"),
    ("tekton.dev", "Task"),
    ("template.openshift.io", "TemplateInstance"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
    ("trainer.kubeflow.org", "TrainingRuntime"),
    ("workspace.devfile.io", "DevWorkspaceTemplate"),
)
"""Custom kinds with templates, labels or annotations that become those of pods only if another
object refers to them, in another object, or in pods that they select. In Koordinator's Reservation
they reserve resources for pods, and those of OpenShift's builds count only as those of a pod's
owner, which KAI reads."""
TEMPLATES: Final[Sequence[Resource]] = tuple(
    sorted(
        ((kind[0], RESOURCES[kind]) for kind in (*WORKLOAD_KINDS, *TEMPLATE_KINDS)), key="/".join
    )
)
"""Custom resources with templates of pods, whose labels a matchCondition cannot search."""

REVISIONS: Final[Resource] = ("apps", "controllerrevisions")
"""Contain templates of StatefulSets and DaemonSets; their data cannot change."""
BINDINGS: Final[Sequence[Resource]] = (("", "bindings"), ("", "pods/binding"))
"""Write their annotations into the pod."""
FINALIZE: Final[Resource] = ("", "namespaces/finalize")
"""Writes the labels and annotations of a Namespace."""
_STATUS: Final = "status"
POD_RESOURCES: Final[Sequence[Resource]] = tuple(
    (kind[0], RESOURCES[kind]) for kind in (*POD_KINDS, NAMESPACE, RESOURCE_CLAIM_TEMPLATE)
)
"""Resources whose labels and annotations are all in places that a matchCondition can name."""


class ListedKinds:
    """The kinds that one of the two webhooks is asked about.

    Args:
        places: The places of the schedulers that the settings list.
    """

    def __init__(self, places: Places) -> None:
        self.searched: list[Resource] = []
        """The resources whose whole specification may name a queue, sorted."""
        self.own: list[Kind] = []
        """The kinds of custom places whose resources are unknown, sorted."""
        self.statuses: list[tuple[Resource, tuple[str, ...]]] = []
        """Fields of a status that name a queue, sorted. They change far less often than others."""
        searched = set(TEMPLATES)
        for kind, fields in places.fields.items():
            served = [each for each in fields if places.modes[each.scheduler] is not Mode.OFF]
            if not served:
                continue
            self.statuses += [
                ((kind[0], RESOURCES[kind]), each.path) for each in served if in_status(each)
            ]
            if kind in RESOURCES:
                searched.add((kind[0], RESOURCES[kind]))
            else:
                self.own.append(kind)
        self.searched = sorted(searched, key="/".join)
        self.own.sort(key="/".join)
        self.statuses.sort()

    @property
    def resources(self) -> list[Resource]:
        """All resources, sorted, without subresources."""
        return sorted({*self.searched, *POD_RESOURCES, REVISIONS, ("", "bindings")}, key="/".join)

    def includes(self, kind: Kind) -> bool:
        """Return whether the webhook is asked about each object of a kind whose template or field
        names a queue.
        """
        resource = RESOURCES.get(kind)
        return kind in self.own or (resource is not None and (kind[0], resource) in self.resources)

    def rules(self) -> list[dict[str, list[str]]]:
        """Return the rules of the webhook for listed kinds."""
        by_group: dict[str, list[str]] = {}
        for group, resource in self.resources:
            if resource != "bindings":
                by_group.setdefault(group, []).append(resource)
        rules = []
        own_groups = {group for group, _ in self.own}
        for group in sorted({*by_group, *own_groups}):
            resources = ["*"] if group in own_groups else by_group[group]
            resources = [name for each in resources for name in (each, f"{each}/status")]
            rules.append(rule(["CREATE", "UPDATE"], group, resources))
        rules.append(rule(["UPDATE"], "", [FINALIZE[1]]))
        rules.append(rule(["CREATE"], "", [name for _, name in BINDINGS]))
        return rules


def in_status(place: FieldPlace) -> bool:
    """Return whether a field is part of a built-in kind's status. Only a scheduler writes it."""
    return place.path[0] == _STATUS and place.kind in RESOURCES


def rule(operations: list[str], group: str, resources: list[str]) -> dict[str, list[str]]:
    """Return a rule for all versions of resources in a group."""
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
    }
