"""Minimal definitions of schedulers' and operators' resources, which accept any fields."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import created
from tests.support.eventually import eventually


class Resource(NamedTuple):
    """A custom resource."""

    group: str
    kind: str
    plural: str
    version: str = "v1"
    is_namespaced: bool = True
    has_status: bool = True
    """Whether the status is a subresource. If not, everybody who may change the object may change
    its status."""


RESOURCES: Sequence[Resource] = (
    Resource("kueue.x-k8s.io", "Workload", "workloads", "v1beta2"),
    Resource("kueue.x-k8s.io", "LocalQueue", "localqueues", "v1beta2"),
    Resource("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", "v1beta2", is_namespaced=False),
    Resource("kueue.x-k8s.io", "Cohort", "cohorts", "v1beta2", is_namespaced=False),
    Resource("batch.volcano.sh", "Job", "jobs", "v1alpha1"),
    Resource("batch.volcano.sh", "CronJob", "cronjobs", "v1alpha1"),
    Resource("flow.volcano.sh", "JobFlow", "jobflows", "v1alpha1"),
    Resource("flow.volcano.sh", "JobTemplate", "jobtemplates", "v1alpha1"),
    Resource("training.volcano.sh", "HyperJob", "hyperjobs", "v1alpha1"),
    Resource("scheduling.volcano.sh", "PodGroup", "podgroups", "v1beta1", has_status=False),
    Resource("scheduling.volcano.sh", "Queue", "queues", "v1beta1", is_namespaced=False),
    Resource("scheduling.run.ai", "PodGroup", "podgroups", "v2alpha2"),
    Resource("scheduling.run.ai", "Queue", "queues", "v2", is_namespaced=False),
    Resource("scheduling.sigs.k8s.io", "ElasticQuota", "elasticquotas", "v1alpha1"),
    Resource("ray.io", "RayCluster", "rayclusters"),
    Resource("quota.koordinator.sh", "ElasticQuotaProfile", "elasticquotaprofiles", "v1alpha1"),
    Resource(
        *("scheduling.koordinator.sh", "Reservation", "reservations", "v1alpha1"),
        is_namespaced=False,
    ),
    Resource("ray.io", "RayCronJob", "raycronjobs"),
    Resource("ray.io", "RayJob", "rayjobs"),
    Resource("ray.io", "RayService", "rayservices"),
    Resource("jobset.x-k8s.io", "JobSet", "jobsets", "v1alpha2"),
    Resource("sparkoperator.k8s.io", "SparkApplication", "sparkapplications", "v1beta2"),
    Resource(
        "sparkoperator.k8s.io", "ScheduledSparkApplication", "scheduledsparkapplications", "v1beta2"
    ),
    Resource("sparkoperator.k8s.io", "SparkConnect", "sparkconnects", "v1alpha1"),
    Resource("batch.paddlepaddle.org", "PaddleJob", "paddlejobs"),
    Resource("mindspore.gitee.com", "MSJob", "msjobs"),
    Resource("runtime.agentcube.volcano.sh", "AgentRuntime", "agentruntimes", "v1alpha1"),
    Resource("workload.serving.volcano.sh", "ModelServing", "modelservings", "v1alpha1"),
    Resource("kubeflow.org", "JAXJob", "jaxjobs"),
    Resource("kubeflow.org", "MPIJob", "mpijobs", "v2beta1"),
    Resource("kubeflow.org", "MXJob", "mxjobs"),
    Resource("kubeflow.org", "PaddleJob", "paddlejobs"),
    Resource("kubeflow.org", "PyTorchJob", "pytorchjobs"),
    Resource("kubeflow.org", "TFJob", "tfjobs"),
    Resource("kubeflow.org", "XGBoostJob", "xgboostjobs"),
    Resource("trainer.kubeflow.org", "TrainJob", "trainjobs", "v1alpha1"),
    Resource("trainer.kubeflow.org", "TrainingRuntime", "trainingruntimes", "v1alpha1"),
    Resource(
        "trainer.kubeflow.org",
        "ClusterTrainingRuntime",
        "clustertrainingruntimes",
        "v1alpha1",
        is_namespaced=False,
    ),
    Resource("workload.codeflare.dev", "AppWrapper", "appwrappers", "v1beta2"),
    Resource("argoproj.io", "Workflow", "workflows", "v1alpha1", has_status=False),
    Resource("argoproj.io", "CronWorkflow", "cronworkflows", "v1alpha1", has_status=False),
    Resource("flink.apache.org", "FlinkDeployment", "flinkdeployments", "v1beta1"),
    Resource(
        "flink.apache.org", "FlinkBlueGreenDeployment", "flinkbluegreendeployments", "v1beta1"
    ),
    Resource("argoproj.io", "Rollout", "rollouts", "v1alpha1"),
    Resource("argoproj.io", "Sensor", "sensors", "v1alpha1"),
    Resource(
        *("argoproj.io", "WorkflowTemplate", "workflowtemplates", "v1alpha1"), has_status=False
    ),
    Resource("grove.io", "PodClique", "podcliques", "v1alpha1"),
    Resource("grove.io", "PodCliqueSet", "podcliquesets", "v1alpha1"),
    Resource("keda.sh", "ScaledJob", "scaledjobs", "v1alpha1"),
    Resource("agents.x-k8s.io", "Sandbox", "sandboxes", "v1alpha1"),
    Resource("extensions.agents.x-k8s.io", "SandboxClaim", "sandboxclaims", "v1alpha1"),
    Resource(
        *("extensions.agents.x-k8s.io", "SandboxTemplate", "sandboxtemplates", "v1alpha1"),
        has_status=False,
    ),
    Resource("tekton.dev", "Pipeline", "pipelines", has_status=False),
    Resource("tekton.dev", "PipelineRun", "pipelineruns"),
    Resource("tekton.dev", "Task", "tasks", has_status=False),
    Resource("tekton.dev", "TaskRun", "taskruns"),
    Resource("serving.knative.dev", "Configuration", "configurations"),
    Resource("serving.knative.dev", "Revision", "revisions"),
    Resource("serving.knative.dev", "Service", "services"),
    Resource("serving.kserve.io", "InferenceService", "inferenceservices", "v1beta1"),
    Resource("serving.kserve.io", "LLMInferenceService", "llminferenceservices", "v1alpha1"),
    Resource("serving.kserve.io", "ServingRuntime", "servingruntimes", "v1alpha1"),
    Resource("kubernetes.dask.org", "DaskCluster", "daskclusters", has_status=False),
    Resource("kubeflow.org", "Experiment", "experiments", "v1beta1"),
    Resource("kubeflow.org", "Notebook", "notebooks"),
    Resource("kubeflow.org", "Suggestion", "suggestions", "v1beta1"),
    Resource("kubeflow.org", "ScheduledWorkflow", "scheduledworkflows", "v1beta1"),
    Resource("kubevirt.io", "VirtualMachine", "virtualmachines"),
    Resource("pool.kubevirt.io", "VirtualMachinePool", "virtualmachinepools", "v1beta1"),
    Resource(
        *("instancetype.kubevirt.io", "VirtualMachineInstancetype"),
        *("virtualmachineinstancetypes", "v1beta1"),
        has_status=False,
    ),
    Resource(
        *("instancetype.kubevirt.io", "VirtualMachineClusterPreference"),
        *("virtualmachineclusterpreferences", "v1beta1"),
        is_namespaced=False,
        has_status=False,
    ),
    Resource("clone.kubevirt.io", "VirtualMachineClone", "virtualmachineclones", "v1beta1"),
    Resource("export.kubevirt.io", "VirtualMachineExport", "virtualmachineexports"),
    Resource(
        *("snapshot.kubevirt.io", "VirtualMachineSnapshotContent"),
        *("virtualmachinesnapshotcontents", "v1beta1"),
    ),
    Resource("snapshot.kubevirt.io", "VirtualMachineRestore", "virtualmachinerestores", "v1beta1"),
    Resource("apps.kruise.io", "PodProbeMarker", "podprobemarkers", "v1alpha1"),
    Resource("apps.kruise.io", "SidecarSet", "sidecarsets", "v1beta1", is_namespaced=False),
    Resource("apps.kruise.io", "UnitedDeployment", "uniteddeployments", "v1alpha1"),
    Resource("apps.kruise.io", "WorkloadSpread", "workloadspreads", "v1beta1"),
    Resource("build.openshift.io", "BuildConfig", "buildconfigs"),
    Resource("template.openshift.io", "TemplateInstance", "templateinstances"),
    Resource("nvidia.com", "DynamoCheckpoint", "dynamocheckpoints", "v1beta1"),
    Resource("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", "v1beta1"),
    Resource(
        *("nvidia.com", "DynamoGraphDeploymentRequest"),
        *("dynamographdeploymentrequests", "v1beta1"),
    ),
    Resource(
        *("scheduling.koordinator.sh", "PodMigrationJob", "podmigrationjobs", "v1alpha1"),
        is_namespaced=False,
    ),
    Resource("workspace.devfile.io", "DevWorkspace", "devworkspaces", "v1alpha2"),
    Resource("workspace.devfile.io", "DevWorkspaceTemplate", "devworkspacetemplates", "v1alpha2"),
    Resource("argoproj.io", "EventBus", "eventbus", "v1alpha1"),
    Resource("machinelearning.seldon.io", "SeldonDeployment", "seldondeployments"),
    Resource("apps.openshift.io", "DeploymentConfig", "deploymentconfigs"),
    Resource("disaggregatedset.x-k8s.io", "DisaggregatedSet", "disaggregatedsets"),
    Resource("trainer.kubeflow.org", "OptimizationJob", "optimizationjobs", "v1alpha1"),
    Resource(
        *("config.koordinator.sh", "ClusterColocationProfile", "clustercolocationprofiles"),
        version="v1alpha1",
        is_namespaced=False,
    ),
    Resource("run.ai", "WorkloadRunner", "workloadrunners"),
    Resource("batch.example.com", "TrainingRun", "trainingruns"),
    Resource("unread.example.com", "Widget", "widgets"),
)


def define(cluster: ApiServer, resources: Sequence[Resource] = RESOURCES) -> None:
    """Define resources, and wait until the API server serves them."""
    for each in resources:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        created(cluster.ask("admin", "POST", path, _definition(each)))
    for each in resources:
        path = f"/apis/{each.group}/{each.version}/{each.plural}"
        eventually(lambda path=path: cluster.ask("admin", "GET", path).status_code, 200)  # type: ignore[misc]


def _definition(resource: Resource) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource.plural}.{resource.group}",
            # The API server requires it for groups of the Kubernetes project.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.is_namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "subresources": {"status": {}} if resource.has_status else {},
                }
            ],
        },
    }
