"""Each place of each kind is checked by each operation that may change it."""

from typing import Any

import pytest

from queuegate.policy.decision import Access
from queuegate_server.admission.queues.checks import UNQUEUED
from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    BARE,
    EMPTY,
    KUEUE,
    SCHEDULERS,
    VOLCANO,
    VOLCANO_JOB,
    YUNIKORN,
    cron,
    embedded,
    labels,
    paths,
    required,
    template,
)

CLUSTER_A = "root.clusterqueues.a"


GANG = {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "dev"}}}}


PLACES = [
    ("Pod", labels(kueue="a"), "root.namespaces.ml.a"),
    ("Pod", labels(yunikorn="root.dev"), "root.dev"),
    ("Pod", {"metadata": {"labels": {"queue": "dev"}}}, "root.dev"),
    ("Pod", {"metadata": {"labels": {"kai.scheduler/queue": "train"}}}, "root.kai.dev.train"),
    ("Pod", {"metadata": {"annotations": {VOLCANO: "train"}}}, "root.volcano.dev.train"),
    ("Binding", {"metadata": {"annotations": {YUNIKORN: "dev"}}}, "root.dev"),
    ("Namespace", {"metadata": {"annotations": {VOLCANO: "dev"}}}, "root.volcano.dev"),
    (
        "Namespace",
        {"metadata": {"annotations": {"yunikorn.apache.org/parentqueue": "root.dev"}}},
        "root.dev",
    ),
    ("apps/Deployment", template(labels(yunikorn="dev")), "root.dev"),
    ("batch/CronJob", cron(labels(volcano="dev")), "root.volcano.dev"),
    ("batch/Job", labels(kueue="a"), "root.namespaces.ml.a"),
    ("ray.io/RayCluster", labels(kueue="a"), "root.namespaces.ml.a"),
    ("example.com/Thing", {"a": [{"b": labels(volcano="train")}]}, "root.volcano.dev.train"),
    ("kueue.x-k8s.io/Workload", {"spec": {"queueName": "a"}}, "root.namespaces.ml.a"),
    ("kueue.x-k8s.io/LocalQueue", {"spec": {"clusterQueue": "a"}}, "root.clusterqueues.a"),
    ("batch.volcano.sh/Job", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    (
        "batch.volcano.sh/CronJob",
        {"spec": {"jobTemplate": {"spec": {"queue": "dev"}}}},
        "root.volcano.dev",
    ),
    ("flow.volcano.sh/JobTemplate", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    (
        "flow.volcano.sh/JobFlow",
        {"spec": {"flows": [{"name": "a"}, {"patch": {"jobSpec": {"queue": "dev"}}}]}},
        "root.volcano.dev",
    ),
    (
        "training.volcano.sh/HyperJob",
        {"spec": {"replicatedJobs": [{"templateSpec": {"queue": "dev"}}]}},
        "root.volcano.dev",
    ),
    *(
        (f"kubeflow.org/{kind}", GANG, "root.volcano.dev")
        for kind in ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    ),
    *(
        (f"trainer.kubeflow.org/{kind}", template(labels(volcano="dev")), "root.volcano.dev")
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
    ),
    (
        "sparkoperator.k8s.io/SparkConnect",
        {"spec": {"server": template(labels(yunikorn="dev"))["spec"]}},
        "root.dev",
    ),
    (
        "kueue.x-k8s.io/Workload",
        {"status": {"admission": {"clusterQueue": "a"}}},
        "root.clusterqueues.a",
    ),
    *(
        ("workload.codeflare.dev/AppWrapper", {"spec": {"components": [{"template": each}]}}, path)
        for each, path in (
            (embedded("batch.volcano.sh/v1alpha1", "Job", {"queue": "dev"}), "root.volcano.dev"),
            (embedded("kubeflow.org/v1", "PyTorchJob", GANG["spec"]), "root.volcano.dev"),
            (embedded("kueue.x-k8s.io/v1beta2", "LocalQueue", {"clusterQueue": "a"}), CLUSTER_A),
            (embedded("v1", "List", {"items": [embedded(*VOLCANO_JOB)]}), "root.volcano.dev"),
        )
    ),
    ("scheduling.volcano.sh/PodGroup", {"spec": {"queue": "dev"}}, "root.volcano.dev"),
    ("scheduling.run.ai/PodGroup", {"spec": {"queue": "dev"}}, "root.kai.dev"),
    (
        "Pod",
        {"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "dev"}}},
        "root.koordinator.dev",
    ),
    (
        "Pod",
        {"metadata": {"annotations": {"slurmjob.slinky.slurm.net/account": "dev"}}},
        "root.slurm-bridge.dev",
    ),
]


PARENTS = [
    ("kueue.x-k8s.io/ClusterQueue", {"spec": {"cohortName": "a"}}, "root.cohorts.a"),
    ("kueue.x-k8s.io/Cohort", {"spec": {"parentName": "a"}}, "root.cohorts.a"),
    ("scheduling.volcano.sh/Queue", {"spec": {"parent": "dev"}}, "root.volcano.dev"),
    ("scheduling.run.ai/Queue", {"spec": {"parentQueue": "dev"}}, "root.kai.dev"),
    (
        "workload.codeflare.dev/AppWrapper",
        {"spec": [embedded("scheduling.volcano.sh/v1beta1", "Queue", {"parent": "dev"})]},
        "root.volcano.dev",
    ),
    (
        "scheduling.sigs.k8s.io/ElasticQuota",
        {"metadata": {"labels": {"quota.scheduling.koordinator.sh/parent": "dev"}}},
        "root.koordinator.dev",
    ),
]


@pytest.mark.parametrize(("kind", "value", "path"), [*PLACES, *PARENTS])
def test_each_place_by_operation(kind: str, value: dict[str, Any], path: str) -> None:
    access = Access.ADMIN if (kind, value, path) in PARENTS else Access.SUBMIT
    created = required(kind, value)
    assert [(check.path, check.access) for check in created.checks] == [(path, access)]
    assert required(kind, value, BARE) == created
    assert required(kind, value, BARE, subresource="status") == created
    assert required(kind, value, value) == EMPTY
    assert required(kind, BARE, value) == EMPTY
    assert required(kind, None, value, operation="DELETE") == EMPTY
    assert required(kind, value, operation="CONNECT") == EMPTY
    for subresource in ("scale", "eviction", "ephemeralcontainers"):
        assert required(kind, value, BARE, subresource=subresource) == EMPTY


def test_the_parent_in_a_quota_profile_needs_admin_access() -> None:
    parent = "quota.scheduling.koordinator.sh/parent"
    spec = {"quotaLabels": {parent: "a"}}
    found = required("quota.koordinator.sh/ElasticQuotaProfile", {"spec": spec})
    assert [(each.path, each.access, each.where) for each in found.checks] == [
        ("root.koordinator.a", Access.ADMIN, f'spec.quotaLabels["{parent}"]')
    ]


@rows
def test_keys_that_only_an_operator_reads(kind: str, metadata: dict[str, Any], path: str) -> None:
    """The operator writes the scheduler's own key into the pods."""
    value = {"metadata": metadata}
    found = required(kind, value, unqueued="deny")
    assert paths(found) == [path]
    assert required(kind, value, value) == EMPTY
    # An object of this kind within another one, even where no operator is known to look.
    group, _, name = kind.rpartition("/")
    within = {"spec": {"any": [{"apiVersion": f"{group}/v1", "kind": name, **value}]}}
    for outer in ("workload.codeflare.dev/AppWrapper", "run.ai/WorkloadRunner", "x.io/Any"):
        assert paths(required(outer, within)) == [path]
    # In other kinds, the key means nothing.
    for other in ("Pod", "apps/Deployment", "workload.codeflare.dev/AppWrapper"):
        assert required(other, value) == EMPTY
    swapped = {"labels": metadata.get("annotations"), "annotations": metadata.get("labels")}
    assert required(kind, {"metadata": swapped}) == EMPTY


@pytest.mark.parametrize("name", [" dev", "dev ", "\tdev\n"])
def test_an_operator_that_trims_names_gets_none_unseen(name: str) -> None:
    value = {"metadata": {"annotations": {"nvidia.com/kai-scheduler-queue": name}}}
    found = required("nvidia.com/DynamoGraphDeployment", value)
    assert paths(found) == ["root.kai.dev"] if found.checks else found.obstacles


@rows
@pytest.mark.parametrize("places", [[], [{"kind": "grove.io/PodCliqueSet", "field": "spec.queue"}]])
def test_a_place_of_an_own_kind_hides_no_other(
    where: dict[str, Any], checked: list[str] | None, places: list[Any]
) -> None:
    """With a place that the object lacks, a name elsewhere is still a name."""
    schedulers = {**SCHEDULERS, "places": places}
    value = {"spec": {"template": where}}
    found = required("grove.io/PodCliqueSet", value, schedulers=schedulers, unqueued="deny")
    if checked is None:
        assert [each.scheduler for each in found.obstacles] == [UNQUEUED]
    else:
        assert paths(found) == checked


def test_labels_anywhere_in_an_own_kind_name_a_queue() -> None:
    """Nobody knows which of its members are metadata."""
    schedulers = {**SCHEDULERS, "places": [{"kind": "example.com/Run", "field": "spec.queue"}]}
    run = {"spec": {"parts": [{"labels": {KUEUE: "dev"}}]}}
    found = required("example.com/Run", run, schedulers=schedulers, unqueued="deny")
    assert paths(found) == ["root.namespaces.ml.dev"]
    claim = {"spec": {"volumeClaimTemplates": [labels(kueue="dev")]}}
    found = required("example.com/Run", claim, schedulers=schedulers, unqueued="deny")
    assert [each.scheduler for each in found.obstacles] == [UNQUEUED]
