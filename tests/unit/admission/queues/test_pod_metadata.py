"""Which metadata is that of pods, and the names that KAI derives from the label `project`."""

from typing import Any

import pytest

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.walk import TooComplex, find_names
from queuegate_server.admission.registration.conditions import other_names_change
from queuegate_server.admission.server.webhook_limits import MAX_FOUND
from queuegate_server.settings.admission import QueueChecks
from tests.support.rows import rows

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
APP_WRAPPER: Kind = ("workload.codeflare.dev", "AppWrapper")


def names(kind: Kind, value: dict[str, Any]) -> list[str]:
    """Return the names in an object."""
    return [each.name for each in find_names(kind, value, PLACES) if each]


def schedulers(kind: Kind, value: dict[str, Any]) -> list[str]:
    """Return the schedulers that read a name in an object."""
    return [each.scheduler for each in find_names(kind, value, PLACES) if each]


def owned(project: str = "", pool: str = "") -> dict[str, Any]:
    """Return metadata with KAI's labels."""
    labels = {"project": project, POOL: pool}
    return {"metadata": {"labels": {key: value for key, value in labels.items() if value}}}


@rows
def test_keys_without_a_prefix_count_only_in_the_metadata_of_pods(
    kind: Kind, value: dict[str, Any], expected: list[str]
) -> None:
    assert names(kind, value) == expected


@rows
def test_nested_metadata_is_that_of_pods_unless_it_certainly_is_not(
    spec: dict[str, Any], expected: list[str]
) -> None:
    assert schedulers(("example.com", "Thing"), {"spec": spec}) == expected


@rows
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


@rows
def test_the_metadata_of_objects_that_operators_create(
    kind: Kind, spec: dict[str, Any], expected: list[str]
) -> None:
    assert schedulers(kind, {"spec": spec}) == expected


OVERRIDDEN = {"queue": "closed", YUNIKORN: "open"}


BESIDE = {"labels": OVERRIDDEN}


@rows
def test_a_key_overrides_another_one_only_in_a_pod_itself(
    kind: Kind, value: dict[str, Any]
) -> None:
    """Elsewhere, an operator may copy only one of them, or remove one."""
    assert sorted(names(kind, value)) == ["closed", "open"]


def test_a_pod_within_a_pod_is_not_the_pod_itself() -> None:
    value = {"metadata": BESIDE, "spec": {"template": {**POD_OBJECT, "metadata": BESIDE}}}
    assert sorted(names(("", "Pod"), value)) == ["closed", "open", "open"]


@rows
def test_a_project_beside_the_label_of_a_queue(value: dict[str, Any]) -> None:
    found = names(("example.com", "Thing"), value)
    assert sorted(found) == ["closed", "closed-gpu", "open"]


def test_a_namespace_within_an_object_names_the_queue_of_its_pods() -> None:
    value = {"metadata": {"annotations": {"yunikorn.apache.org/parentqueue": "a"}}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", **value}
    assert names(("", "List"), {"items": [namespace]}) == ["a"]
    assert names(("", "List"), {"items": [value, {**namespace, "kind": "Pod"}]}) == []


@rows
def test_a_node_pool_beside_a_project_names_another_queue(
    labels: dict[str, str], expected: list[str]
) -> None:
    metadata = {"metadata": {"labels": labels}}
    assert names(("", "Pod"), metadata) == expected
    assert names(("example.com", "Thing"), metadata) == expected
    assert names(("example.com", "Thing"), {"spec": {"podTemplate": metadata}}) == expected


@rows
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
