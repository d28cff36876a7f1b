"""Names that an operator reads later, or computes, are refused."""

from typing import Any

import pytest

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
    assert "an expression gives the key or the value" in found.obstacles[0].message
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


@pytest.mark.parametrize(
    ("kind", "specification", "other", "where", "reason"),
    [
        (
            "kubeflow.org/Experiment",
            {"trialTemplate": {"configMap": {"configMapNamespace": "a", "templatePath": "x"}}},
            {"trialTemplate": {"configMap": {"configMapNamespace": "b", "templatePath": "x"}}},
            "spec.trialTemplate.configMap.configMapNamespace",
            "the template is read from elsewhere",
        ),
        (
            "kubeflow.org/ScheduledWorkflow",
            {"workflow": {"spec": '{"podMetadata": {}}'}},
            {"workflow": {"spec": "{}"}},
            "spec.workflow.spec",
            "the object is written as text",
        ),
        *(
            (
                f"{group}.kubevirt.io/{kind}",
                {"patches": ['{"op": "remove", "path": "/spec/running"}', patch]},
                {"patches": [patch.replace("queue", "other")]},
                "spec.patches[1]",
                "the patch may change labels or annotations",
            )
            for group, kind in (
                ("clone", "VirtualMachineClone"),
                ("snapshot", "VirtualMachineRestore"),
            )
            for patch in (
                '{"op": "add", "path": "/spec/template/metadata/labels/queue", "value": "a"}',
                '{"op": "add", "path": "/spec/template/Metadata/labels/queue", "value": "a"}',
                '{"op": "add", "path": "/spec", "value": {"metadata": {"queue": {}}}}',
                '{"op": "add", "path": "/spec/template/meta\\u0064ata/labels/queue", "value": 1}',
                '{"op": "copy", "from": "/status/queue", "path": "/spec/template"}',
            )
        ),
        *(
            (
                f"workspace.devfile.io/{kind}",
                {"components": [{"name": "a"}, {type_of: {"inlined": "{}"}}]},
                {"components": [{"name": "a"}, {type_of: {"inlined": "kind: Pod"}}]},
                f"spec.components[1].{type_of}.inlined",
                "the object is written as text",
            )
            for kind in ("DevWorkspaceTemplate",)
            for type_of in ("kubernetes", "openshift")
        ),
        *(
            (
                "workspace.devfile.io/DevWorkspaceTemplate",
                {"components": [{"plugin": {"components": [{type_of: {"inlined": "a"}}]}}]},
                {"components": [{"plugin": {"components": [{type_of: {"inlined": "b"}}]}}]},
                f"spec.components[0].plugin.components[0].{type_of}.inlined",
                "the object is written as text",
            )
            for type_of in ("kubernetes", "openshift")
        ),
        *(
            (
                "workspace.devfile.io/DevWorkspace",
                {name: value({"components": [{"kubernetes": {"inlined": "a"}}]})},
                {name: value({"components": [{"kubernetes": {"inlined": "b"}}]})},
                f"spec.{where}.components[0].kubernetes.inlined",
                "the object is written as text",
            )
            for name, where, value in (
                ("template", "template", lambda each: each),
                ("template", "template.parent", lambda each: {"parent": each}),
                ("contributions", "contributions[0]", lambda each: [each]),
                # A plugin may override its components.
                (
                    "template",
                    "template.components[0].plugin",
                    lambda each: {"components": [{"plugin": each}]},
                ),
                (
                    "template",
                    "template.parent.components[0].plugin",
                    lambda each: {"parent": {"components": [{"plugin": each}]}},
                ),
            )
        ),
    ],
)
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
