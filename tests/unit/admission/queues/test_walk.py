"""The names of queues in objects, and where they stand."""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from queuegate_server.admission.queues.kinds import Kind
from queuegate_server.admission.queues.model import EXPRESSION
from queuegate_server.admission.queues.places import build_places
from queuegate_server.admission.queues.walk import TooComplex, find_names
from queuegate_server.admission.server.webhook_limits import MAX_DEPTH, MAX_FOUND
from queuegate_server.settings.admission import QueueChecks
from queuegate_server.settings.queue_schedulers import FLAT
from tests.support.rows import rows

YUNIKORN = "yunikorn.apache.org/queue"
KUEUE = "kueue.x-k8s.io/queue-name"
RUN: Kind = ("batch.example.com", "TrainingRun")
SETTINGS = QueueChecks.model_validate(
    {
        "schedulers": {
            "yunikorn": {},
            "kueue": {},
            **{name: {"below": f"root.{name}"} for name in FLAT},
            "places": [
                {"label": "example.com/queue"},
                {"kind": "/".join(RUN), "field": "spec.tasks.queue"},
            ],
        }
    }
)
PLACES = build_places(SETTINGS)


def found(kind: Kind, value: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the scheduler, the name and the position of each name."""
    return [
        (each.scheduler, each.name, each.where) for each in find_names(kind, value, PLACES) if each
    ]


def labelled(key: str, value: object = "dev") -> dict[str, Any]:
    """Return an object with one label."""
    return {"metadata": {"labels": {key: value}}}


@rows
def test_a_key_is_found_at_every_depth(kind: Kind, value: dict[str, Any], where: str) -> None:
    names = found(kind, value)
    assert len(names) == 1
    assert where in {"", names[0][2]}


@rows
def test_what_names_no_queue(value: dict[str, Any]) -> None:
    assert found(("apps", "Deployment"), value) == []


@rows
def test_fields(kind: Kind, value: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert found(kind, value) == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [(0, "0"), (False, "false"), (True, "true"), (1.5, "1.5"), ({}, "{…}"), ([], "{…}")],
)
def test_values_that_are_no_text(value: object, name: str) -> None:
    """An operator may convert a value that the API server does not check."""
    assert found(("example.com", "Thing"), {"x": labelled(KUEUE, value)}) == [
        ("kueue", name, f'x.metadata.labels["{KUEUE}"]')
    ]
    properties = {f"spark.kubernetes.driver.label.{KUEUE}": value}
    assert [each[1] for each in found(("", "Thing"), {"sparkConf": properties})] == [name]


def test_a_value_that_is_no_text_overrides_nothing() -> None:
    labels = {YUNIKORN: 0, "queue": "root.a"}
    names = found(("", "Pod"), {"metadata": {"labels": labels}})
    assert {name for _, name, _ in names} == {"0", "root.a"}


@pytest.mark.parametrize(
    "text", ["{{inputs.parameters.q}}", "a-${trialParameters.q}", "$(params.q)"]
)
def test_expressions_in_values(text: str) -> None:
    workflow = {"spec": {"templates": [labelled(KUEUE, text)]}}
    assert [name for _, name, _ in found(("argoproj.io", "Workflow"), workflow)] == [EXPRESSION]
    job = {"spec": {"queue": text}}
    assert found(("batch.volcano.sh", "Job"), job) == [("volcano", EXPRESSION, "spec.queue")]


@rows
def test_an_object_may_say_which_scheduler_reads_its_queue(
    batch_scheduler: str | None, expected: set[str]
) -> None:
    spec = {"batchScheduler": batch_scheduler, "batchSchedulerOptions": {"queue": "a"}}
    once = found(("sparkoperator.k8s.io", "SparkApplication"), {"spec": spec})
    scheduled = found(
        ("sparkoperator.k8s.io", "ScheduledSparkApplication"), {"spec": {"template": spec}}
    )
    assert {scheduler for scheduler, _, _ in once} == expected
    assert {scheduler for scheduler, _, _ in scheduled} == expected


def test_slurm_partitions_are_a_list() -> None:
    value = labelled("slurmjob.slinky.slurm.net/partition", "gpu,cpu,")
    assert [name for _, name, _ in found(("", "Pod"), value)] == ["gpu", "cpu"]


def nested(levels: int) -> dict[str, Any]:
    """Return an object of nested maps."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nested(MAX_DEPTH + 1), f"more than {MAX_DEPTH} levels"),
        ({"x": [labelled(KUEUE)] * (MAX_FOUND + 1)}, f"more than {MAX_FOUND} places"),
    ],
)
def test_what_is_too_complex(value: dict[str, Any], message: str) -> None:
    with pytest.raises(TooComplex, match=message):
        found(("", "Pod"), value)


def test_the_largest_objects_are_searched() -> None:
    assert found(("", "Pod"), nested(MAX_DEPTH)) == []
    assert len(found(("", "Pod"), {"x": [labelled(KUEUE)] * MAX_FOUND})) == MAX_FOUND


def test_long_keys_need_little_memory() -> None:
    """The text of the position of every node would be 2 GB."""
    value: dict[str, Any] = {"k" * 100_000: {str(number): {} for number in range(20_000)}}
    value["k" * 100_000]["last"] = labelled(KUEUE)
    tracemalloc.start()
    try:
        names = found(("", "Pod"), value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [name for _, name, _ in names] == ["dev"]
    assert len(names[0][2]) < 1_000
    assert peak < 50_000_000


def test_positions_contain_no_control_characters() -> None:
    assert found(("", "Pod"), {"a\nb\x1b": labelled(KUEUE)})[0][2].startswith("a?b?.metadata")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (("", "Pod"), {"spec": [[]] * 5_000}),
        (("", "Pod"), {"spec": [{"labels": {}}] * 5_000}),
        (("kueue.x-k8s.io", "Workload"), {"spec": [0] * 5_000}),
        (("", "Pod"), {"spec": {"sparkConf": {f"spark.{number}": "" for number in range(5_000)}}}),
    ],
)
def test_a_long_search_can_be_paused(kind: Kind, value: dict[str, Any]) -> None:
    steps = list(find_names(kind, value, PLACES))
    assert set(steps) == {None}
    assert len(steps) >= 5_000
