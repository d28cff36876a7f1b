"""Names that an operator reads later, or computes, are refused."""

from typing import Any

import pytest

from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    EMPTY,
    KUEUE,
    VOLCANO,
    YUNIKORN,
    labels,
    paths,
    required,
)


@pytest.mark.parametrize(
    ("key", "scheduler"),
    [(KUEUE, "kueue"), (YUNIKORN, "yunikorn"), (VOLCANO, "volcano"), ("project", "kai")],
)
def test_a_name_from_an_expression_is_an_obstacle(key: str, scheduler: str) -> None:
    """Argo evaluates it later, so that it may become any queue."""
    source = {"expression": "workflow.parameters.queue"}
    spec = {"workflowMetadata": {"labelsFrom": {key: source, "other": source}}}
    found = required("argoproj.io/Workflow", {"spec": spec})
    assert found.checks == ()
    assert [(each.scheduler, each.where) for each in found.obstacles] == [
        (scheduler, f'spec.workflowMetadata.labelsFrom["{key}"]')
    ]
    assert "the key or the value is an expression" in found.obstacles[0].message
    assert required("argoproj.io/Workflow", {"spec": spec}, {"spec": spec}) == EMPTY


@pytest.mark.parametrize("maps", ["labels", "annotations", "labelsFrom"])
def test_a_key_from_an_expression_is_an_obstacle_for_each_scheduler(maps: str) -> None:
    """Argo substitutes the whole template as text, keys included."""
    template = {"metadata": {maps: {"{{inputs.parameters.key}}": "root.a"}}}
    found = required("argoproj.io/Workflow", {"spec": {"templates": [template]}})
    schedulers = {each.scheduler for each in found.obstacles}
    assert {"yunikorn", "kueue", "volcano"} <= schedulers
    assert {each.where for each in found.obstacles} == {
        f'spec.templates[0].metadata.{maps}["{{{{inputs.parameters.key}}}}"]'
    }


@rows
def test_a_template_that_an_operator_reads_later(
    kind: str, specification: dict[str, Any], other: dict[str, Any], where: str, reason: str
) -> None:
    """Also in an object within another one."""
    thing = {"spec": specification}
    first = required(kind, thing).obstacles[0]
    assert first.where == where
    assert first.message.startswith(reason)
    assert required(kind, thing, thing) == EMPTY
    assert required(kind, {"spec": other}, thing).obstacles
    group, _, name = kind.partition("/")
    component = {"template": {"apiVersion": f"{group}/v1", "kind": name, **thing}}
    wrapper = {"spec": {"components": [component]}}
    found = required("workload.codeflare.dev/AppWrapper", wrapper).obstacles
    assert found[0].where == f"spec.components[0].template.{where}"
    assert required("example.com/Run", thing) == EMPTY


def test_patches_of_other_members_hide_no_names() -> None:
    patches = [
        '{"op": "remove", "path": "/spec/template/spec/domain/devices/interfaces/0/macAddress"}',
        '{"op": "add", "path": "/spec/runStrategy", "value": "Halted"}',
    ]
    for kind in (
        "clone.kubevirt.io/VirtualMachineClone",
        "snapshot.kubevirt.io/VirtualMachineRestore",
    ):
        assert required(kind, {"spec": {"patches": patches}}) == EMPTY


POD_LABELS = labels(kueue="dev")["metadata"]


def test_templates_of_katib_and_kubeflow_pipelines_in_the_object() -> None:
    for kind, template_of in (
        ("Experiment", {"trialTemplate": {"trialSpec": labels(kueue="dev"), "configMap": None}}),
        ("ScheduledWorkflow", {"workflow": {"spec": {"podMetadata": POD_LABELS}}}),
    ):
        found = required(f"kubeflow.org/{kind}", {"spec": template_of})
        assert paths(found) == ["root.namespaces.ml.dev"]
