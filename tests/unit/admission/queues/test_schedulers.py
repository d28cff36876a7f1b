"""Which schedulers read a name, and in which mode."""

from typing import Any

import pytest

from queuegate_server.admission.queues.checks import UNQUEUED
from queuegate_server.admission.server.webhook_limits import MAX_DEPTH
from queuegate_server.settings.queue_schedulers import Mode
from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    YUNIKORN,
    embedded,
    paths,
    required,
)


@rows
def test_names_that_no_checked_scheduler_reads_are_no_queues(
    new: Any, old: Any, checked: list[str] | None, is_unqueued: bool
) -> None:
    """Volcano is off, and Kueue ignores annotations."""
    schedulers = {"kueue": {}, "volcano": {"mode": "off"}}
    checked = ["root.namespaces.ml.a"] if checked is None else checked
    assert paths(required("Pod", new, old, schedulers=schedulers)) == checked
    denied = required("Pod", new, old, schedulers=schedulers, unqueued="deny")
    assert [check.path for check in denied.checks] == checked
    assert [each.scheduler for each in denied.obstacles] == [UNQUEUED] * is_unqueued
    default = required("Pod", new, old, schedulers=schedulers, unqueued="root.default")
    assert paths(default) == checked + ["root.default"] * is_unqueued


@rows
def test_keys_that_no_scheduler_reads_are_no_queues(
    kind: str, value: dict[str, Any], is_unqueued: bool
) -> None:
    found = required(kind, value, unqueued="deny")
    assert len(found.checks) == 1
    assert [each.scheduler for each in found.obstacles] == [UNQUEUED] * is_unqueued


@rows
def test_a_place_that_names_another_queue_for_each_scheduler(
    queue: str, chosen: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    spec = {"batchSchedulerOptions": {"queue": queue}, **chosen}
    found = required("sparkoperator.k8s.io/SparkApplication", {"spec": spec})
    assert [
        (each.path, each.scheduler_field) for each in found.checks if each.is_one_of_several
    ] == expected
    assert len(found.checks) == max(len(expected), 1)
    # The driver's label is a further place of YuniKorn's queue, not of Volcano's.
    labelled = {"driver": {"labels": {YUNIKORN: queue}}, **spec}
    found = required("sparkoperator.k8s.io/SparkApplication", {"spec": labelled})
    assert [each.path for each in found.checks if each.is_one_of_several] == [
        path for path, _ in expected
    ]


def test_the_field_for_the_scheduler_of_an_object_within_an_object() -> None:
    application = embedded(
        *("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        {"batchSchedulerOptions": {"queue": "root.a"}},
    )
    value = {"spec": {"components": [{"template": application}]}}
    found = required("workload.codeflare.dev/AppWrapper", value)
    assert {each.scheduler_field for each in found.checks} == {
        "spec.components[0].template.spec.batchScheduler"
    }


@pytest.mark.parametrize("is_checked", [True, False])
def test_the_label_project_is_checked_unless_it_is_switched_off(is_checked: bool) -> None:
    value = {"metadata": {"labels": {"project": "dev"}}}
    found = required(
        "ConfigMap", value, schedulers={"kai": {"project_label": is_checked, "below": "root.kai"}}
    )
    assert paths(found) == ["root.kai.dev"] * is_checked


@rows
def test_schedulers_have_modes_of_their_own(
    modes: tuple[str, str], expected: list[tuple[str, Mode]]
) -> None:
    """A queue that several places name is checked once, in the stricter mode."""
    own = {"label": "example.com/queue", "mode": modes[1]}
    schedulers = {"yunikorn": {"mode": modes[0]}, "places": [own]}
    value = {"metadata": {"labels": {YUNIKORN: "dev", "example.com/queue": "root.dev"}}}
    found = required("Pod", value, schedulers=schedulers)
    assert [(check.scheduler, check.mode) for check in found.checks] == expected


@rows
def test_an_object_that_is_too_complex_has_the_strictest_mode(
    mode: str, other: str, unqueued: str, expected: list[Mode]
) -> None:
    value: dict[str, Any] = {}
    for _ in range(MAX_DEPTH + 1):
        value = {"x": value}
    schedulers = {"kai": {"mode": other, "below": "root.kai"}}
    found = required("Pod", value, mode=mode, schedulers=schedulers, unqueued=unqueued)
    assert [each.mode for each in found.obstacles] == expected


@pytest.mark.parametrize("scheduler", ["yunikorn", "default-scheduler", None])
@pytest.mark.parametrize("is_processed", [True, False])
@pytest.mark.parametrize("key", ["queue", YUNIKORN])
def test_pods_that_yunikorn_does_not_schedule(
    scheduler: str | None, is_processed: bool, key: str
) -> None:
    """Its label without a prefix means something else there."""
    pod = {"metadata": {"labels": {key: "root.dev"}}, "spec": {"schedulerName": scheduler}}
    found = required("Pod", pod, is_processed=is_processed)
    is_checked = key == YUNIKORN or is_processed or scheduler == "yunikorn"
    assert paths(found) == ["root.dev"] * is_checked
    job = {"spec": {"template": pod}}  # its pods may get another scheduler
    assert paths(required("batch/Job", job, is_processed=is_processed)) == ["root.dev"]
