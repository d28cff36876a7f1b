"""Which metadata is that of pods, and the names that KAI derives from the label `project`."""

from typing import Any

import pytest

from queuegate_server.admission.queues.conditions import other_names_change
from queuegate_server.admission.queues.places import Kind, build_places
from queuegate_server.admission.queues.walk import find_names
from queuegate_server.settings.admission import QueueChecks

PLACES = build_places(QueueChecks.model_validate({"schedulers": {"yunikorn": {}, "kai": {}}}))
YUNIKORN = "yunikorn.apache.org/queue"
BARE = {"labels": {"queue": "a", "project": "a"}}
POOL = "kai.scheduler/node-pool"
CONF = "spark.kubernetes.driver.label"


def names(kind: Kind, value: dict[str, Any]) -> list[str]:
    """Return the names in an object."""
    return [each.name for each in find_names(kind, value, PLACES)]


def labelled(key: str, value: object = "dev") -> dict[str, Any]:
    """Return an object with one label."""
    return {"metadata": {"labels": {key: value}}}


def pod_template(**labels: str) -> dict[str, Any]:
    """Return a pod's template with labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (("", "Pod"), labelled("queue"), ["dev"]),
        (("", "Binding"), labelled("queue"), ["dev"]),
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
            {"metadata": {"labels": {"project": "a", "kai.scheduler/queue": "b"}}},
            ["b"],
        ),
        (
            ("", "Pod"),
            {"metadata": {"labels": {"project": "a"}, "annotations": {"kai.scheduler/queue": "b"}}},
            ["a"],
        ),
    ],
)
def test_keys_without_a_prefix_count_only_in_the_metadata_of_pods(
    kind: Kind, value: dict[str, Any], expected: list[str]
) -> None:
    assert names(kind, value) == expected


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"podMetadata": BARE}, True),
        ({"templates": [{"metadata": BARE, "container": {}}]}, True),
        ({"templateDefaults": {"metadata": BARE}}, True),
        ({"workflowSpec": {"podMetadata": BARE}}, True),
        ({"podTemplate": {"metadata": BARE}}, True),
        ({"taskManager": {"podTemplate": {"metadata": BARE, "spec": {}}}}, True),
        ({"podTemplateOverrides": [{"metadata": BARE, "spec": {"nodeSelector": {}}}]}, True),
        ({"template": {"metadata": BARE, "spec": {"template": "text"}}}, True),
        ({"template": {"metadata": BARE, "spec": {"containers": [], "template": {}}}}, True),
        ({"replicaSpecs": {"volumeClaimTemplates": {"template": {"metadata": BARE}}}}, True),
        ({"template": {"metadata": BARE, "spec": {"template": {}}}}, False),
        ({"components": [{"template": {"metadata": BARE, "spec": {"jobTemplate": {}}}}]}, False),
        ({"volumeClaimTemplates": [{"metadata": BARE, "spec": {}}]}, False),
        ({"volumes": [{"ephemeral": {"volumeClaimTemplate": {"metadata": BARE}}}]}, False),
        ({"podSelector": BARE}, False),
    ],
)
def test_nested_metadata_is_that_of_pods_unless_it_certainly_is_not(
    spec: dict[str, Any], *, counts: bool
) -> None:
    assert names(("example.com", "Thing"), {"spec": spec}) == ["a", "a"] * counts


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"project": "a", POOL: "gpu"}, ["a", "a-gpu"]),
        ({"project": "a", POOL: ""}, ["a"]),
        ({"project": "", POOL: "gpu"}, []),
        ({POOL: "gpu"}, []),
        ({"project": "a", POOL: "gpu", "kai.scheduler/queue": "b"}, ["b"]),
    ],
)
def test_a_node_pool_beside_a_project_names_another_queue(
    labels: dict[str, str], expected: list[str]
) -> None:
    metadata = {"metadata": {"labels": labels}}
    assert names(("", "Pod"), metadata) == expected
    assert names(("example.com", "Thing"), metadata) == expected
    assert names(("example.com", "Thing"), {"spec": {"podTemplate": metadata}}) == expected


def test_a_node_pool_in_the_properties_of_spark() -> None:
    conf = {f"{CONF}.project": "a", f"spark.kubernetes.label.{POOL}": "gpu"}
    assert names(("example.com", "Thing"), {"spec": {"sparkConf": conf}}) == ["a", "a-gpu"]


def test_the_api_server_asks_about_projects_and_node_pools_of_all_kinds() -> None:
    [condition] = other_names_change(PLACES)
    for key in ("project", POOL):
        assert f'"{key}"' in condition["expression"]
    assert '"queue"' not in condition["expression"]
