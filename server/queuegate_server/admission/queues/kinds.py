"""The kinds of objects that are pods, or from which controllers create pods. Pure."""

from typing import Final

Kind = tuple[str, str]
"""An API group, empty for the core group, and a kind."""

NAMESPACE: Final[Kind] = ("", "Namespace")
POD: Final[Kind] = ("", "Pod")
RESOURCE_CLAIM_TEMPLATE: Final[Kind] = ("resource.k8s.io", "ResourceClaimTemplate")
"""Not a template of pods. A controller copies its labels to ResourceClaims."""
POD_KINDS: Final[tuple[Kind, ...]] = (
    POD,
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
)
"""The built-in kinds that are pods or contain templates of pods."""
TRAINING_KINDS: Final[tuple[Kind, ...]] = tuple(
    ("kubeflow.org", kind)
    for kind in ("JAXJob", "MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
)
"""Kubeflow's kinds whose gangs Volcano schedules."""
WORKLOAD_KINDS: Final[tuple[Kind, ...]] = (
    *TRAINING_KINDS,
    *(
        (group, kind)
        for group, kinds in (
            ("agents.x-k8s.io", "Sandbox"),
            ("amlarc.azureml.com", "AmlJob"),
            (
                "apps.kruise.io",
                "AdvancedCronJob BroadcastJob CloneSet DaemonSet StatefulSet UnitedDeployment",
            ),
            ("apps.openshift.io", "DeploymentConfig"),
            ("argoproj.io", "AnalysisRun CronWorkflow Experiment Rollout Workflow"),
            ("batch.paddlepaddle.org", "PaddleJob"),
            ("batch.volcano.sh", "CronJob Job"),
            ("egx.nvidia.io", "SPOTRequest"),
            ("disaggregatedset.x-k8s.io", "DisaggregatedSet"),
            ("execution.kubegene.io", "Execution"),
            ("export.kubevirt.io", "VirtualMachineExport"),
            ("flink.apache.org", "FlinkBlueGreenDeployment FlinkDeployment"),
            ("grove.io", "PodClique PodCliqueSet PodGangSet"),
            ("jobset.x-k8s.io", "JobSet"),
            ("keda.sh", "ScaledJob"),
            ("kubeflow.org", "Experiment Notebook ScheduledWorkflow Suggestion Trial"),
            ("kubernetes.dask.org", "DaskCluster DaskJob DaskWorkerGroup"),
            (
                "kubevirt.io",
                "VirtualMachine VirtualMachineInstance VirtualMachineInstanceReplicaSet",
            ),
            ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
            ("machinelearning.seldon.io", "SeldonDeployment"),
            ("mindspore.gitee.com", "MSJob"),
            ("nvidia.com", "DynamoCheckpoint DynamoComponentDeployment DynamoGraphDeployment"),
            ("pool.kubevirt.io", "VirtualMachinePool"),
            ("ray.io", "RayCluster RayCronJob RayJob RayService"),
            ("run.ai", "DistributedInferenceWorkload DistributedWorkload InferenceWorkload"),
            ("run.ai", "InteractiveWorkload RunaiJob TrainingWorkload WorkloadRunner"),
            ("runtime.agentcube.volcano.sh", "AgentRuntime CodeInterpreter"),
            ("serving.knative.dev", "Configuration Revision Service"),
            ("serving.kserve.io", "InferenceGraph InferenceService LLMInferenceService"),
            ("spark.apache.org", "SparkApplication SparkCluster"),
            ("sparkoperator.k8s.io", "ScheduledSparkApplication SparkApplication SparkConnect"),
            ("tekton.dev", "PipelineRun TaskRun"),
            ("trainer.kubeflow.org", "OptimizationJob TrainJob"),
            ("training.volcano.sh", "HyperJob"),
            ("workload.codeflare.dev", "AppWrapper"),
            ("workload.serving.volcano.sh", "ModelBooster ModelServing"),
            ("workspace.devfile.io", "DevWorkspace"),
        )
        for kind in kinds.split()
    ),
)
"""The custom kinds whose templates operators make into pods. They include the kinds that Kueue,
Volcano, KAI-Scheduler and YuniKorn integrate (`pkg/controller/jobs` of Kueue, `hub.go` of KAI's
pod grouper, the ecosystem in Volcano's documentation with its projects AgentCube, KubeGene and
Kthena, and the workloads in YuniKorn's)."""
