"""Operators whose accounts administrators list in `admission.queues.controllers`. Pure.

An operator may be trusted with the names of queues only if each kind from which it creates pods is
checked when somebody creates an object of it. The operators are those of the kinds that Kueue
(`pkg/controller/jobs`), KAI-Scheduler (`pkg/podgrouper/podgrouper/hub`), Volcano and YuniKorn
integrate, and others in wide use. The page that is generated from this table says where the
accounts come from (`docs/generate/operators.py`). Which kinds are checked is not repeated here:
`ListedKinds` knows it.
"""

from typing import Final, NamedTuple

from queuegate_server.admission.queues.kinds import POD_KINDS, RESOURCE_CLAIM_TEMPLATE, Kind

SERVICE_ACCOUNT: Final = "system:serviceaccount:"


class Operator(NamedTuple):
    """A program that creates pods, or objects that name queues, from other objects."""

    name: str
    accounts: tuple[str, ...]
    """The users that it is in its usual installations; none if its project does not publish
    them."""
    kinds: tuple[Kind, ...]
    """The kinds from which it takes templates or names of queues."""
    chooses: bool = False
    """Whether its users choose queues in a way that the API server does not see, such as in a file
    or on a page, so that it is a user itself."""
    fetched: str = ""
    """The templates that it may fetch from where nobody checks them."""
    condition: str = ""
    """When it may be trusted although it fetches templates; empty if it must not be able to."""


def _accounts(*names: str) -> tuple[str, ...]:
    """Return the users of service accounts, each given as its namespace, a colon, and its name."""
    return tuple(f"{SERVICE_ACCOUNT}{name}" for name in names)


def _kinds(group: str, kinds: str) -> tuple[Kind, ...]:
    return tuple((group, kind) for kind in kinds.split())


_TRAINING: Final = _kinds("kubeflow.org", "JAXJob MPIJob PaddleJob PyTorchJob TFJob XGBoostJob")
_MX_JOB: Final = _kinds("kubeflow.org", "MXJob")
_RAY: Final = _kinds("ray.io", "RayCluster RayCronJob RayJob RayService")
_APPLICATIONS: Final = _kinds("sparkoperator.k8s.io", "ScheduledSparkApplication SparkApplication")
_TRAIN_JOBS: Final = _kinds(
    "trainer.kubeflow.org", "ClusterTrainingRuntime OptimizationJob TrainingRuntime TrainJob"
)
_JOB_SET: Final = _kinds("jobset.x-k8s.io", "JobSet")
_MPI_JOB: Final = _kinds("kubeflow.org", "MPIJob")
_LEADER_WORKER_SET: Final = _kinds("leaderworkerset.x-k8s.io", "LeaderWorkerSet")
_APP_WRAPPER: Final = _kinds("workload.codeflare.dev", "AppWrapper")
_GROVE: Final = _kinds("grove.io", "PodClique PodCliqueSet PodGangSet")
_KUBERNETES: Final = (
    "cronjob daemon-set deployment endpoint endpointslice endpointslicemirroring ephemeral-volume"
    " job replicaset replication resource-claim statefulset"
)

OPERATORS: Final[tuple[Operator, ...]] = (
    Operator(
        "Kubernetes",
        (
            *_accounts(*(f"kube-system:{name}-controller" for name in _KUBERNETES.split())),
            "system:kube-controller-manager",
        ),
        (*POD_KINDS, RESOURCE_CLAIM_TEMPLATE),
    ),
    Operator(
        "OpenShift's DeploymentConfigs",
        _accounts(
            "openshift-infra:deployer-controller", "openshift-infra:deploymentconfig-controller"
        ),
        _kinds("apps.openshift.io", "DeploymentConfig"),
    ),
    Operator(
        "OpenShift's builds",
        _accounts(
            "openshift-infra:build-config-change-controller", "openshift-infra:build-controller"
        ),
        _kinds("build.openshift.io", "Build BuildConfig"),
    ),
    Operator(
        "OpenShift's templates",
        _accounts("openshift-infra:template-instance-controller"),
        _kinds("template.openshift.io", "TemplateInstance"),
    ),
    Operator(
        "Kueue",
        _accounts("kueue-system:kueue-controller-manager"),
        (
            *POD_KINDS,
            *_TRAINING,
            *_RAY,
            *_APPLICATIONS,
            *_kinds("trainer.kubeflow.org", "TrainJob"),
            *_JOB_SET,
            *_LEADER_WORKER_SET,
            *_APP_WRAPPER,
        ),
    ),
    Operator(
        "Volcano",
        _accounts("volcano-system:volcano-controllers", "volcano-system:volcano-scheduler"),
        (
            *POD_KINDS,
            *_kinds("batch.volcano.sh", "CronJob Job"),
            *_kinds("flow.volcano.sh", "JobFlow JobTemplate"),
            *_kinds("training.volcano.sh", "HyperJob"),
        ),
    ),
    Operator(
        "KAI-Scheduler",
        _accounts(
            *(
                f"kai-scheduler:{name}"
                for name in ("binder", "pod-grouper", "podgroup-controller", "podgrouper")
            ),
            *(f"kai-scheduler:{name}" for name in ("queue-controller", "scheduler")),
        ),
        (*POD_KINDS, *_GROVE),
    ),
    Operator(
        "Koordinator",
        _accounts("koordinator-system:koord-manager"),
        (
            *_kinds("config.koordinator.sh", "ClusterColocationProfile"),
            *_kinds("quota.koordinator.sh", "ElasticQuotaProfile"),
        ),
    ),
    Operator(
        "Koordinator's descheduler",
        _accounts("koordinator-system:koord-descheduler"),
        (
            *_kinds("scheduling.koordinator.sh", "PodMigrationJob Reservation"),
            *POD_KINDS,
        ),
    ),
    Operator(
        "the Spark operator of Kubeflow",
        _accounts("spark-operator:spark-operator-controller"),
        (*_APPLICATIONS, *_kinds("sparkoperator.k8s.io", "SparkConnect")),
    ),
    Operator(
        "the Spark operator of Apache",
        _accounts("spark-operator:spark-operator", "default:spark-operator"),
        _kinds("spark.apache.org", "SparkApplication SparkCluster"),
    ),
    Operator(
        "KubeRay",
        _accounts("kuberay-operator:kuberay-operator", "default:kuberay-operator"),
        _RAY,
    ),
    Operator(
        "the training operator of Kubeflow",
        _accounts("kubeflow:training-operator"),
        (*_TRAINING, *_MX_JOB),
    ),
    Operator(
        "the MPI operator",
        _accounts("mpi-operator:mpi-operator", "kubeflow:mpi-operator"),
        _MPI_JOB,
    ),
    Operator(
        "Kubeflow Trainer",
        _accounts(
            "kubeflow-system:kubeflow-trainer-controller-manager",
            "kubeflow:kubeflow-trainer-controller-manager",
        ),
        _TRAIN_JOBS,
    ),
    Operator("JobSet", _accounts("jobset-system:jobset-controller-manager"), _JOB_SET),
    Operator(
        "LeaderWorkerSet",
        _accounts("lws-system:lws-controller-manager"),
        (*_LEADER_WORKER_SET, *_kinds("disaggregatedset.x-k8s.io", "DisaggregatedSet")),
    ),
    Operator(
        "AppWrapper", _accounts("appwrapper-system:appwrapper-controller-manager"), _APP_WRAPPER
    ),
    Operator(
        "the Flink operator",
        _accounts("flink-operator:flink-operator", "default:flink-operator"),
        _kinds("flink.apache.org", "FlinkBlueGreenDeployment FlinkDeployment"),
    ),
    Operator(
        "Argo Workflows",
        _accounts("argo:argo", "argo:argo-workflows-workflow-controller"),
        _kinds("argoproj.io", "ClusterWorkflowTemplate CronWorkflow Workflow WorkflowTemplate"),
    ),
    Operator(
        "Argo Rollouts",
        _accounts("argo-rollouts:argo-rollouts"),
        _kinds(
            "argoproj.io",
            "AnalysisRun AnalysisTemplate ClusterAnalysisTemplate Experiment Rollout",
        ),
    ),
    Operator(
        "Argo Events",
        _accounts("argo-events:argo-events-sa"),
        _kinds("argoproj.io", "EventBus EventSource Sensor"),
    ),
    Operator("Grove", _accounts("grove-system:grove-operator", "default:grove-operator"), _GROVE),
    Operator(
        "KEDA",
        _accounts("keda:keda-operator", "kube-system:keda-operator"),
        _kinds("keda.sh", "ScaledJob"),
    ),
    Operator(
        "Knative Serving",
        _accounts("knative-serving:controller"),
        _kinds("serving.knative.dev", "Configuration Revision Service"),
    ),
    Operator(
        "KServe",
        _accounts("kserve:kserve-controller-manager", "kserve:llmisvc-controller-manager"),
        (
            *_kinds(
                "serving.kserve.io",
                "ClusterServingRuntime InferenceGraph InferenceService LLMInferenceService"
                " LLMInferenceServiceConfig ServingRuntime",
            ),
        ),
    ),
    Operator(
        "Tekton Pipelines",
        _accounts("tekton-pipelines:tekton-pipelines-controller"),
        _kinds("tekton.dev", "Pipeline PipelineRun Task TaskRun"),
        # The labels and annotations of a Task are merged into those of the TaskRun
        # (`storeTaskSpecAndMergeMeta`).
        fetched="Tasks and Pipelines from Git, a hub, a bundle or an address",
    ),
    Operator(
        "the Dask operator",
        _accounts("dask-operator:dask-kubernetes-operator"),
        _kinds("kubernetes.dask.org", "DaskCluster DaskJob DaskWorkerGroup"),
    ),
    Operator(
        "agent-sandbox",
        _accounts("agent-sandbox-system:agent-sandbox-controller"),
        (
            *_kinds("agents.x-k8s.io", "Sandbox"),
            *_kinds("extensions.agents.x-k8s.io", "SandboxClaim SandboxTemplate"),
        ),
    ),
    Operator(
        "Katib",
        _accounts("kubeflow:katib-controller"),
        _kinds("kubeflow.org", "Experiment Suggestion Trial"),
    ),
    Operator(
        "Kubeflow Notebooks",
        _accounts(
            *(
                f"{namespace}:notebook-controller-service-account"
                for namespace in ("kubeflow", "notebook-controller-system")
            )
        ),
        _kinds("kubeflow.org", "Notebook"),
    ),
    Operator(
        "the scheduled workflows of Kubeflow Pipelines",
        _accounts("kubeflow:ml-pipeline-scheduledworkflow"),
        _kinds("kubeflow.org", "ScheduledWorkflow"),
    ),
    Operator(
        "Seldon Core",
        _accounts("seldon-system:seldon-manager"),
        _kinds("machinelearning.seldon.io", "SeldonDeployment"),
    ),
    Operator(
        "KubeVirt",
        _accounts("kubevirt:kubevirt-controller"),
        _kinds(
            "kubevirt.io",
            "VirtualMachine VirtualMachineInstance VirtualMachineInstanceReplicaSet",
        )
        + _kinds("clone.kubevirt.io", "VirtualMachineClone")
        + _kinds("export.kubevirt.io", "VirtualMachineExport")
        + _kinds(
            "instancetype.kubevirt.io",
            "VirtualMachineClusterInstancetype VirtualMachineClusterPreference"
            " VirtualMachineInstancetype VirtualMachinePreference",
        )
        + _kinds("pool.kubevirt.io", "VirtualMachinePool")
        + _kinds("snapshot.kubevirt.io", "VirtualMachineRestore VirtualMachineSnapshotContent"),
    ),
    Operator(
        "Kruise",
        _accounts("kruise-system:kruise-manager"),
        _kinds(
            "apps.kruise.io",
            "AdvancedCronJob BroadcastJob CloneSet DaemonSet PodProbeMarker SidecarSet StatefulSet"
            " UnitedDeployment WorkloadSpread",
        ),
    ),
    Operator(
        "NVIDIA Dynamo",
        _accounts(
            *(
                f"{namespace}:dynamo-platform-dynamo-operator-controller-manager"
                for namespace in ("dynamo-system", "dynamo-cloud")
            )
        ),
        _kinds(
            "nvidia.com",
            "DynamoCheckpoint DynamoComponentDeployment DynamoGraphDeployment"
            " DynamoGraphDeploymentRequest",
        ),
        # The profiler is an image that the request names.
        fetched="the deployments that the profiler of a DynamoGraphDeploymentRequest writes",
        condition=(
            "its users may not create DynamoGraphDeploymentRequests, whose profiler writes"
            " deployments"
        ),
    ),
    Operator(
        "Run:ai",
        (),
        _kinds(
            "run.ai",
            "DistributedInferenceWorkload DistributedWorkload InferenceWorkload"
            " InteractiveWorkload RunaiJob TrainingWorkload WorkloadRunner",
        ),
    ),
    Operator(
        "the Paddle operator",
        _accounts("paddle-system:paddle-manager-sa"),
        _kinds("batch.paddlepaddle.org", "PaddleJob"),
    ),
    Operator(
        "the MindSpore operator",
        _accounts("ms-operator-system:ms-operator-controller-manager"),
        _kinds("mindspore.gitee.com", "MSJob"),
    ),
    Operator(
        "Kthena",
        _accounts("kthena-system:kthena-controller-manager"),
        _kinds("workload.serving.volcano.sh", "ModelBooster ModelServing"),
    ),
    Operator(
        "AgentCube",
        _accounts("agentcube-system:workloadmanager", "agentcube:workloadmanager"),
        _kinds("runtime.agentcube.volcano.sh", "AgentRuntime CodeInterpreter"),
    ),
    Operator(
        "KubeGene", _accounts("default:kube-dag"), _kinds("execution.kubegene.io", "Execution")
    ),
    Operator("Azure Machine Learning", (), _kinds("amlarc.azureml.com", "AmlJob")),
    Operator("NVIDIA's SPOTRequests", (), _kinds("egx.nvidia.io", "SPOTRequest")),
    Operator(
        "the DevWorkspace operator",
        _accounts("devworkspace-controller:devworkspace-controller-serviceaccount"),
        _kinds("workspace.devfile.io", "DevWorkspace DevWorkspaceTemplate"),
        fetched="parents and plugins from an address or a registry",
    ),
    Operator(
        "Airflow",
        _accounts(
            *(f"airflow:airflow-{name}" for name in ("scheduler", "triggerer", "worker")),
        ),
        (),
        chooses=True,
    ),
    Operator("Argo CD", _accounts("argocd:argocd-application-controller"), (), chooses=True),
    Operator("the server of Argo Workflows", _accounts("argo:argo-server"), (), chooses=True),
    Operator(
        "Flux",
        _accounts("flux-system:helm-controller", "flux-system:kustomize-controller"),
        (),
        chooses=True,
    ),
    Operator("JupyterHub", _accounts("jhub:hub", "jupyterhub:hub"), (), chooses=True),
    Operator("Kubeflow Pipelines", _accounts("kubeflow:ml-pipeline"), (), chooses=True),
)
"""The operators that queuegate knows."""
