"""Which metadata is that of pods, and the names that KAI derives from the label `project`."""

from typing import Any

import pytest

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.walk import MAX_FOUND, TooComplex, find_names
from queuegate_server.admission.registration.conditions import other_names_change
from queuegate_server.settings.admission import QueueChecks

PLACES = build_places(
    QueueChecks.model_validate({"schedulers": {"yunikorn": {}, "kai": {"below": "root.kai"}}})
)
YUNIKORN = "yunikorn.apache.org/queue"
BARE = {"labels": {"queue": "a", "project": "a"}}
POOL = "kai.scheduler/node-pool"
CONF = "spark.kubernetes.driver.label"


POD = ["yunikorn", "kai"]
OWNER = ["kai"]
POD_OBJECT = {"apiVersion": "v1", "kind": "Pod"}
JOB_OBJECT = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}}}
APP_WRAPPER: Kind = ("workload.codeflare.dev", "AppWrapper")
RUNTIME = {
    "template": {
        "metadata": BARE,
        "spec": {"replicatedJobs": [{"template": {"spec": {"template": {"metadata": BARE}}}}]},
    }
}
TRAIN_JOB_OBJECT = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
SERVICE = {"apiVersion": "v1", "kind": "Service"}
SPARK_OBJECT = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication"}


def names(kind: Kind, value: dict[str, Any]) -> list[str]:
    """Return the names in an object."""
    return [each.name for each in find_names(kind, value, PLACES) if each]


def schedulers(kind: Kind, value: dict[str, Any]) -> list[str]:
    """Return the schedulers that read a name in an object."""
    return [each.scheduler for each in find_names(kind, value, PLACES) if each]


def labelled(key: str, value: object = "dev") -> dict[str, Any]:
    """Return an object with one label."""
    return {"metadata": {"labels": {key: value}}}


def owned(project: str = "", pool: str = "") -> dict[str, Any]:
    """Return metadata with KAI's labels."""
    labels = {"project": project, POOL: pool}
    return {"metadata": {"labels": {key: value for key, value in labels.items() if value}}}


def pod_template(**labels: str) -> dict[str, Any]:
    """Return a pod's template with labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (("", "Pod"), labelled("queue"), ["dev"]),
        (("", "Binding"), labelled("queue"), ["dev"]),
        (("kubernetes.dask.org", "DaskCluster"), labelled("queue"), ["dev"]),
        (("kubernetes.dask.org", "DaskJob"), labelled("queue"), ["dev"]),
        (("kubernetes.dask.org", "DaskWorkerGroup"), labelled("queue"), ["dev"]),
        (("kubeflow.org", "Experiment"), labelled("queue"), ["dev"]),
        (("sparkoperator.k8s.io", "ScheduledSparkApplication"), labelled("queue"), ["dev"]),
        (("sparkoperator.k8s.io", "SparkApplication"), labelled("queue"), ["dev"]),
        (("sparkoperator.k8s.io", "SparkConnect"), labelled("queue"), ["dev"]),
        (("spark.apache.org", "SparkApplication"), labelled("queue"), []),
        (("kubeflow.org", "Suggestion"), labelled("queue"), ["dev"]),
        (("serving.knative.dev", "Revision"), labelled("queue"), ["dev"]),
        (("serving.kserve.io", "InferenceGraph"), labelled("queue"), ["dev"]),
        (("apps", "Deployment"), labelled("queue"), []),
        (("", "Service"), labelled("queue"), []),
        (("apps", "Deployment"), {"spec": {"template": pod_template(queue="a")}}, ["a"]),
        (("ray.io", "RayCluster"), {"spec": {"x": [{"template": pod_template(queue="a")}]}}, ["a"]),
        (("volcano", "Job"), {"spec": {"tasks": [pod_template(queue="a")]}}, ["a"]),
        (
            ("batch", "CronJob"),
            {
                "spec": {
                    "jobTemplate": {
                        "metadata": {"labels": {"queue": "of the Job"}},
                        "spec": {"template": pod_template(queue="a")},
                    }
                }
            },
            ["a"],
        ),
        (
            ("sparkoperator.k8s.io", "SparkApplication"),
            {"spec": {"driver": {"labels": {"queue": "a"}, "template": labelled("queue", "b")}}},
            ["a", "b"],
        ),
        (
            ("sparkoperator.k8s.io", "SparkApplication"),
            {"spec": {"sparkConf": {"spark.kubernetes.driver.label.queue": "a"}}},
            ["a"],
        ),
        (("", "Pod"), {"metadata": {"annotations": {"queue": "a"}}}, []),
        (("", "Pod"), {"metadata": {"labels": {"queue": "a", YUNIKORN: "b"}}}, ["b"]),
        (
            ("", "Pod"),
            {"metadata": {"labels": {"queue": "a"}, "annotations": {YUNIKORN: "b"}}},
            ["b"],
        ),
        (("", "Pod"), {"metadata": {"labels": {"queue": "a", YUNIKORN: ""}}}, ["a"]),
        # Another controller may copy only the annotation.
        (
            ("", "Pod"),
            {"metadata": {"labels": {YUNIKORN: "a"}, "annotations": {YUNIKORN: "b"}}},
            ["a", "b"],
        ),
        (("apps", "Deployment"), labelled("project"), ["dev"]),
        # KAI reads it in the top owner, which may have any kind.
        (("example.com", "Thing"), labelled("project"), ["dev"]),
        (("example.com", "Thing"), {"spec": labelled("project")}, ["dev"]),
        (("example.com", "Thing"), {"spec": {"labels": {"project": "a"}}}, []),
        (
            ("", "Pod"),
            {"metadata": {"labels": {"project": "a", "kai.scheduler/queue": "b", POOL: "gpu"}}},
            ["b"],
        ),
        (
            ("", "Pod"),
            {"metadata": {"labels": {"project": "a"}, "annotations": {"kai.scheduler/queue": "b"}}},
            ["a", "b"],
        ),
    ],
)
def test_keys_without_a_prefix_count_only_in_the_metadata_of_pods(
    kind: Kind, value: dict[str, Any], expected: list[str]
) -> None:
    assert names(kind, value) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podMetadata": BARE}, POD),
        ({"templates": [{"metadata": BARE, "container": {}}]}, POD),
        ({"templateDefaults": {"metadata": BARE}}, POD),
        ({"workflowSpec": {"podMetadata": BARE}}, POD),
        ({"podTemplate": {"metadata": BARE}}, POD),
        ({"taskManager": {"podTemplate": {"metadata": BARE, "spec": {}}}}, POD),
        ({"podTemplateOverrides": [{"metadata": BARE, "spec": {"nodeSelector": {}}}]}, POD),
        ({"template": {"metadata": BARE, "spec": {"template": "text"}}}, POD),
        ({"template": {"metadata": BARE, "spec": {"containers": [], "template": {}}}}, POD),
        ({"replicaSpecs": {"volumeClaimTemplates": {"template": {"metadata": BARE}}}}, POD),
        ({"template": {"metadata": BARE, "spec": {"template": {}}}}, OWNER),
        ({"components": [{"template": {"metadata": BARE, "spec": {"jobTemplate": {}}}}]}, OWNER),
        ({"volumeClaimTemplates": [{"metadata": BARE, "spec": {}}]}, []),
        ({"volumes": [{"ephemeral": {"volumeClaimTemplate": {"metadata": BARE}}}]}, []),
        ({"components": [{"podSetInfos": [BARE]}]}, POD),
        ({"podSetInfos": BARE}, []),
        ({"headGroupSpec": BARE}, POD),
        ({"workerGroupSpecs": [BARE]}, POD),
        ({"podSelector": BARE}, []),
    ],
)
def test_nested_metadata_is_that_of_pods_unless_it_certainly_is_not(
    spec: dict[str, Any], expected: list[str]
) -> None:
    assert schedulers(("example.com", "Thing"), {"spec": spec}) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        # Users choose the names of components.
        (
            ("nvidia.com", "DynamoGraphDeployment"),
            {"spec": {"services": {"podselector": BARE}}},
            POD,
        ),
        (("run.ai", "TrainingWorkload"), {"spec": {"Selector": BARE}}, POD),
        (("nvidia.com", "DynamoGraphDeployment"), {"spec": {"services": {"a": BARE}}}, POD),
        (("machinelearning.seldon.io", "SeldonDeployment"), {"spec": {"predictors": [BARE]}}, POD),
        (("apps.openshift.io", "DeploymentConfig"), {"spec": {"strategy": BARE}}, POD),
        (("config.koordinator.sh", "ClusterColocationProfile"), {"spec": BARE}, POD),
        (
            APP_WRAPPER,
            {"spec": {"components": [{"template": {**SPARK_OBJECT, "metadata": BARE}}]}},
            POD,
        ),
        (("", "List"), {"items": [{**POD_OBJECT, "metadata": BARE}]}, POD),
        (("", "List"), {"items": [{**JOB_OBJECT, "metadata": BARE}]}, OWNER),
        (("", "List"), {"items": [{**SERVICE, "metadata": BARE}]}, POD),
        # To claim that a pod's template is a Job gains nothing.
        (
            ("", "List"),
            {"items": [{"apiVersion": "batch/v1", "kind": "Job", "metadata": BARE}]},
            POD,
        ),
        (("trainer.kubeflow.org", "TrainJob"), {"spec": BARE}, OWNER),
        (("trainer.kubeflow.org", "TrainingRuntime"), {"spec": BARE}, []),
        (("example.com", "Thing"), {"spec": BARE}, []),
        (("", "Pod"), BARE, []),
        (
            ("workload.codeflare.dev", "AppWrapper"),
            {"spec": {"components": [{"template": {**TRAIN_JOB_OBJECT, "spec": BARE}}]}},
            OWNER,
        ),
        (
            ("workload.codeflare.dev", "AppWrapper"),
            {"spec": {"components": [{"template": {**SPARK_OBJECT, "spec": {"driver": BARE}}}]}},
            POD,
        ),
        (("batch", "CronJob"), {"spec": {"jobTemplate": {**JOB_OBJECT, "metadata": BARE}}}, OWNER),
        (
            ("sparkoperator.k8s.io", "SparkConnect"),
            {"spec": {"server": {"template": {"metadata": BARE}}}},
            POD,
        ),
        # Unknown members of a template cannot make it another object's.
        (
            ("sparkoperator.k8s.io", "SparkApplication"),
            {"spec": {"driver": {"template": {"metadata": BARE, "spec": {"template": {}}}}}},
            POD,
        ),
        (
            ("spark.apache.org", "SparkApplication"),
            {"spec": {"driverSpec": {"podTemplateSpec": {"metadata": BARE, "spec": {}}}}},
            POD,
        ),
    ],
)
def test_objects_within_objects_are_those_of_their_kinds(
    kind: Kind, value: dict[str, Any], expected: list[str]
) -> None:
    assert schedulers(kind, value) == expected


@pytest.mark.parametrize("version", ["v1", "apps/v1", "batch/v1", "example.com/v1"])
@pytest.mark.parametrize(
    "name", ["ConfigMap", "Job", "PersistentVolumeClaim", "Pod", "Secret", "Service", "Thing"]
)
@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"template": {}}])
def test_a_component_of_an_appwrapper_is_what_it_is_on_its_own(
    version: str, name: str, spec: dict[str, Any]
) -> None:
    """The operator creates it as it stands."""
    component = {"apiVersion": version, "kind": name, "metadata": BARE, "spec": spec}
    wrapped = {"spec": {"components": [{"template": component}]}}
    alone = (version.rpartition("/")[0], name)
    assert schedulers(APP_WRAPPER, wrapped) == schedulers(alone, component)
    assert schedulers(alone, component) == (POD if alone == ("", "Pod") else OWNER)


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        (("argoproj.io", "WorkflowEventBinding"), {"submit": {"metadata": BARE}}, OWNER),
        (("argoproj.io", "Workflow"), {"workflowMetadata": BARE}, OWNER),
        (("argoproj.io", "CronWorkflow"), {"workflowMetadata": BARE}, OWNER),
        (("trainer.kubeflow.org", "TrainingRuntime"), {"template": {"metadata": BARE}}, OWNER),
        (("trainer.kubeflow.org", "ClusterTrainingRuntime"), RUNTIME, [*OWNER, *POD]),
        (
            ("trainer.kubeflow.org", "OptimizationJob"),
            {"trainJobTemplate": {"metadata": BARE}},
            OWNER,
        ),
        (("trainer.kubeflow.org", "OptimizationJob"), {"trainJobTemplate": {"spec": BARE}}, OWNER),
        (
            ("disaggregatedset.x-k8s.io", "DisaggregatedSet"),
            {"roles": [{"metadata": BARE, "spec": RUNTIME["template"]["spec"]}]},
            [*OWNER, *POD],
        ),
        # These are pods' elsewhere, whatever they claim to be.
        (APP_WRAPPER, {"components": [{"other": {**SERVICE, "metadata": BARE}}]}, POD),
        (APP_WRAPPER, {"x": {"components": [{"template": {**SERVICE, "metadata": BARE}}]}}, POD),
        (("argoproj.io", "Workflow"), {"submit": {"metadata": BARE}}, POD),
        (("argoproj.io", "Workflow"), {"templates": [{**SERVICE, "metadata": BARE}]}, POD),
        (
            ("kubeflow.org", "PyTorchJob"),
            {"pytorchReplicaSpecs": {"Worker": {"template": {**SERVICE, "metadata": BARE}}}},
            POD,
        ),
    ],
)
def test_the_metadata_of_objects_that_operators_create(
    kind: Kind, spec: dict[str, Any], expected: list[str]
) -> None:
    assert schedulers(kind, {"spec": spec}) == expected


OVERRIDDEN = {"queue": "closed", YUNIKORN: "open"}
OVERRIDDEN_PROJECT = {"project": "closed", "kai.scheduler/queue": "open", POOL: "gpu"}


REMOVED = {"metadata": {"annotations": None}}
SPARK: Kind = ("sparkoperator.k8s.io", "SparkApplication")
UNITED: Kind = ("apps.kruise.io", "UnitedDeployment")
BESIDE = {"labels": OVERRIDDEN}
IN_ANNOTATION = {"labels": {"queue": "closed"}, "annotations": {YUNIKORN: "open"}}
PATCHED = {"metadata": {"$retainKeys": ["labels"]}}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        # The operator copies labels, not annotations.
        (SPARK, {"metadata": IN_ANNOTATION}),
        # It adds the labels of the application, then those of the driver.
        (SPARK, {"metadata": BESIDE, "spec": {"driver": {"labels": {YUNIKORN: ""}}}}),
        (SPARK, {"metadata": BESIDE, "spec": {"sparkConf": {f"{CONF}.{YUNIKORN}": ""}}}),
        (("ray.io", "RayCluster"), {"spec": {"headGroupSpec": {"template": {"metadata": BESIDE}}}}),
        (("flink.apache.org", "FlinkDeployment"), {"podTemplate": {"metadata": BESIDE}}),
        # Kruise applies patches, in the object or in another one.
        *(
            (UNITED, {"template": {"metadata": IN_ANNOTATION}, "subsets": [{"patch": patch}]})
            for patch in (REMOVED, PATCHED)
        ),
        (("apps.kruise.io", "CloneSet"), {"spec": {"template": {"metadata": BESIDE}}}),
        # The operator applies the filters of a VirtualMachineClone.
        (("kubevirt.io", "VirtualMachine"), {"spec": {"template": {"metadata": IN_ANNOTATION}}}),
        (("apps", "Deployment"), {"spec": {"template": {"metadata": BESIDE}}}),
        # The API server leaves the labels that the pod has already.
        (("", "Binding"), {"metadata": BESIDE}),
        (APP_WRAPPER, {"spec": {"components": [{"template": {**POD_OBJECT, "metadata": BESIDE}}]}}),
        (("", "List"), {"items": [{**POD_OBJECT, "metadata": IN_ANNOTATION}]}),
        (("", "PodTemplate"), {"template": {"metadata": BESIDE}}),
    ],
)
def test_a_key_overrides_another_one_only_in_a_pod_itself(
    kind: Kind, value: dict[str, Any]
) -> None:
    """Elsewhere, an operator may copy only one of them, or remove one."""
    assert sorted(names(kind, value)) == ["closed", "open"]


def test_a_pod_within_a_pod_is_not_the_pod_itself() -> None:
    value = {"metadata": BESIDE, "spec": {"template": {**POD_OBJECT, "metadata": BESIDE}}}
    assert sorted(names(("", "Pod"), value)) == ["closed", "open", "open"]


@pytest.mark.parametrize(
    "value",
    [
        {"metadata": {"labels": OVERRIDDEN_PROJECT}},
        {"spec": {"template": {"metadata": {"labels": OVERRIDDEN_PROJECT}}}},
    ],
)
def test_a_project_beside_the_label_of_a_queue(value: dict[str, Any]) -> None:
    found = names(("example.com", "Thing"), value)
    assert sorted(found) == ["closed", "closed-gpu", "open"]


def test_a_namespace_within_an_object_names_the_queue_of_its_pods() -> None:
    value = {"metadata": {"annotations": {"yunikorn.apache.org/parentqueue": "a"}}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", **value}
    assert names(("", "List"), {"items": [namespace]}) == ["a"]
    assert names(("", "List"), {"items": [value, {**namespace, "kind": "Pod"}]}) == []


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"project": "a", POOL: "gpu"}, ["a", "a-gpu"]),
        ({"project": "a", POOL: ""}, ["a"]),
        ({"project": "", POOL: "gpu"}, []),
        ({POOL: "gpu"}, []),
    ],
)
def test_a_node_pool_beside_a_project_names_another_queue(
    labels: dict[str, str], expected: list[str]
) -> None:
    metadata = {"metadata": {"labels": labels}}
    assert names(("", "Pod"), metadata) == expected
    assert names(("example.com", "Thing"), metadata) == expected
    assert names(("example.com", "Thing"), {"spec": {"podTemplate": metadata}}) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({**owned("a"), "spec": {"template": owned(pool="gpu")}}, ["a", "a-gpu"]),
        ({**owned(pool="gpu"), "spec": {"template": owned("a")}}, ["a", "a-gpu"]),
        (
            {**owned("a"), "spec": [owned(pool="gpu"), owned("b", "cpu"), owned(pool="gpu")]},
            ["a", "b", "a-gpu", "a-cpu", "b-gpu", "b-cpu"],
        ),
        (
            {"spec": {"jobTemplate": {**owned("a"), "spec": {"template": owned(pool="x")}}}},
            ["a", "a-x"],
        ),
        ({**owned("a"), "spec": {"sparkConf": {f"{CONF}.{POOL}": "gpu"}}}, ["a", "a-gpu"]),
        ({"spec": {"sparkConf": {f"{CONF}.project": "a"}, "x": owned(pool="gpu")}}, ["a", "a-gpu"]),
        ({**owned("a"), "spec": {"nodeSelector": {POOL: "gpu"}}}, ["a"]),
        ({**owned("a"), "spec": {"selector": {"labels": {POOL: "gpu"}}}}, ["a"]),
        ({**owned("a"), "spec": {"labels": {POOL: "gpu"}}}, ["a"]),
        ({**owned("a"), "spec": {"volumeClaimTemplates": [owned(pool="gpu")]}}, ["a"]),
    ],
)
def test_a_project_is_joined_with_the_node_pools_of_the_whole_object(
    value: dict[str, Any], expected: list[str]
) -> None:
    """KAI reads the project from the owner or the pod, and the node pool from the pod."""
    assert names(("example.com", "Thing"), value) == expected


def test_the_joined_names_are_bounded() -> None:
    templates = [owned(f"p{number}", f"n{number}") for number in range(40)]
    with pytest.raises(TooComplex, match=f"more than {MAX_FOUND} places"):
        names(("example.com", "Thing"), {"spec": templates})


def test_the_label_of_node_pools_is_a_setting() -> None:
    kai = {"kai": {"node_pool_label": "example.com/pool"}}
    places = build_places(QueueChecks.model_validate({"schedulers": kai}))
    labels = {"project": "a", "example.com/pool": "gpu", POOL: "cpu"}
    found = find_names(("", "Pod"), {"metadata": {"labels": labels}}, places)
    assert [each.name for each in found if each] == ["a", "a-gpu"]


def test_a_node_pool_in_the_properties_of_spark() -> None:
    conf = {f"{CONF}.project": "a", f"spark.kubernetes.label.{POOL}": "gpu"}
    assert names(("example.com", "Thing"), {"spec": {"sparkConf": conf}}) == ["a", "a-gpu"]


def test_the_api_server_asks_about_projects_and_node_pools_of_all_kinds() -> None:
    [condition] = other_names_change(PLACES)
    for key in ("project", POOL):
        assert f'"{key}"' in condition["expression"]
    assert '"queue"' not in condition["expression"]
