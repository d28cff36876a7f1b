"""What must hold before an object is accepted: which changes are checked, and the bounds."""

from typing import Any

from queuegate_server.admission.queues.checks import UNQUEUED
from queuegate_server.admission.server.webhook_limits import MAX_FOUND, MAX_QUEUES
from queuegate_server.settings.queue_schedulers import Mode
from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    EMPTY,
    OWNED,
    VOLCANO_JOB,
    YUNIKORN,
    embedded,
    labels,
    paths,
    required,
    template,
)


def test_only_new_names_of_an_update_are_checked() -> None:
    old = template(labels(kueue="a", yunikorn="dev"))
    assert paths(required("batch/Job", template(labels(kueue="a", yunikorn="b")), old)) == [
        "root.b"
    ]
    assert paths(required("batch/Job", {**old, **labels(kueue="a")}, old)) == [
        "root.namespaces.ml.a"
    ]


def test_items_of_lists_may_move() -> None:
    first, second = labels(kueue="a"), labels(kueue="b")
    old = {"spec": {"replicatedJobs": [first, second]}}
    new = {"spec": {"replicatedJobs": [second, first, labels(kueue="c")]}}
    assert paths(required("jobset.x-k8s.io/JobSet", new, old)) == ["root.namespaces.ml.c"]


def test_a_further_item_with_a_name_that_is_there_is_not_new() -> None:
    """As a higher number of replicas, it gives nobody another queue."""
    first = labels(kueue="a")
    old = {"spec": {"replicatedJobs": [first]}}
    assert required("jobset.x-k8s.io/JobSet", {"spec": {"replicatedJobs": [first] * 3}}, old) == (
        EMPTY
    )
    elsewhere = {"spec": {"replicatedJobs": [first], "other": [first]}}
    assert paths(required("jobset.x-k8s.io/JobSet", elsewhere, old)) == ["root.namespaces.ml.a"]


def test_the_type_of_an_object_within_an_object_may_change() -> None:
    """Its fields are then those of another kind."""
    old = {"spec": [embedded("batch/v1", "Job", {"queue": "dev"})]}
    new = {"spec": [embedded(*VOLCANO_JOB)]}
    assert paths(required("workload.codeflare.dev/AppWrapper", new, old)) == ["root.volcano.dev"]


def test_a_label_counts_once_no_longer_overridden() -> None:
    old = {"metadata": {"labels": {YUNIKORN: "a", "queue": "b"}}}
    assert paths(required("Pod", {"metadata": {"labels": {"queue": "b"}}}, old)) == ["root.b"]


def test_an_invalid_name_is_an_obstacle_only_when_it_is_new() -> None:
    value = labels(yunikorn="root.a b")
    found = required("Pod", value)
    assert found.checks == ()
    assert [each.where for each in found.obstacles] == [f'metadata.labels["{YUNIKORN}"]']
    assert "cannot be a queue name" in found.obstacles[0].message
    assert required("Pod", value, value) == EMPTY


def many(count: int) -> dict[str, Any]:
    """Return an object that names many queues."""
    return {"spec": {"items": [labels(kueue=f"q{number}") for number in range(count)]}}


def test_the_number_of_queues_is_bounded() -> None:
    assert len(required("example.com/Thing", many(MAX_QUEUES)).checks) == MAX_QUEUES
    found = required("example.com/Thing", many(MAX_QUEUES + 1), mode="deny")
    assert [(each.message, each.mode) for each in found.obstacles] == [
        ("the object names more than 64 queues", Mode.DENY)
    ]
    assert required("example.com/Thing", many(100), many(100)) == EMPTY
    assert len(required("example.com/Thing", many(101), many(100)).checks) == 1


TOO_COMPLEX: dict[str, Any] = {"spec": [labels(kueue="a")] * (MAX_FOUND + 1)}


def test_finalizers_of_objects_that_are_too_complex_can_be_removed() -> None:
    spec = TOO_COMPLEX["spec"]
    old = {"metadata": {"finalizers": ["a"], "resourceVersion": "1"}, "spec": spec}
    assert required("Pod", {"metadata": {"resourceVersion": "2"}, "spec": spec}, old) == EMPTY
    assert len(required("Pod", old).obstacles) == 1
    assert len(required("Pod", {**labels(kueue="a"), "spec": spec}, old).obstacles) == 1
    assert len(required("Pod", {**old, "spec": [*spec, 1]}, old).obstacles) == 1
    owned = {"metadata": {**old["metadata"], **OWNED}, "spec": spec}
    assert required("Pod", old, owned) == EMPTY
    # KAI may take the project of a new owner.
    assert len(required("Pod", owned, old).obstacles) == 1
    assert required("Pod", owned, old, schedulers={"kueue": {}}) == EMPTY


@rows
def test_objects_that_name_no_queue(kind: str, new: Any, old: Any, is_unqueued: bool) -> None:
    assert required(kind, new, old) == EMPTY
    denied = required(kind, new, old, unqueued="deny", mode="deny")
    assert [each.scheduler for each in denied.obstacles] == [UNQUEUED] * is_unqueued
    checked = required(kind, new, old, unqueued="root.default")
    assert paths(checked) == ["root.default"] * is_unqueued


def test_another_unknown_name_is_new() -> None:
    """Whoever changes the address of a template is checked, although names of it were unknown."""

    def spark(address: str) -> dict[str, Any]:
        return {"spec": {"sparkConf": {"spark.kubernetes.driver.podTemplateFile": address}}}

    kind = "sparkoperator.k8s.io/SparkApplication"
    assert required(kind, spark("a"), spark("a")) == EMPTY
    assert required(kind, spark("b"), spark("a")).obstacles
