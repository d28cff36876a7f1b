"""KAI joins a project and a node pool, which may be in different objects."""

import json
from typing import Any

from queuegate_server.admission.server.webhook_limits import MAX_FOUND
from tests.support.rows import rows
from tests.unit.admission.queues.required import (
    EMPTY,
    OTHERS,
    OWNED,
    paths,
    required,
    template,
)


def test_a_node_pool_that_is_added_names_a_new_queue() -> None:
    old = {"metadata": {"labels": {"project": "a"}}, "spec": {"template": {"metadata": {}}}}
    pool = {"metadata": {"labels": {"kai.scheduler/node-pool": "gpu"}}}
    assert paths(required("apps/Deployment", {**old, **template(pool)}, old)) == ["root.kai.a-gpu"]


POOL = "kai.scheduler/node-pool"


@rows
def test_a_node_pool_whose_project_is_unknown(
    owners: dict[str, Any], labels_of_pod: dict[str, str], is_refused: bool
) -> None:
    pod = {"metadata": {**owners, "labels": labels_of_pod}}
    found = required("Pod", pod)
    assert [each.where for each in found.obstacles] == [f'metadata.labels["{POOL}"]'] * is_refused
    assert all("KAI may join the node pool" in each.message for each in found.obstacles)
    # Old objects stay editable. Another owner makes the project unknown anew.
    assert required("Pod", pod, pod) == EMPTY
    moved = required("Pod", {"metadata": {**pod["metadata"], **OTHERS}}, pod)
    has_queue = "kai.scheduler/queue" in labels_of_pod
    assert bool(moved.obstacles) is (POOL in labels_of_pod and not has_queue)
    # The garbage collector removes owners.
    both = [*OWNED["ownerReferences"], *OTHERS["ownerReferences"]]
    shared = {"metadata": {**pod["metadata"], "ownerReferences": both}}
    assert required("Pod", {"metadata": {**pod["metadata"], **OTHERS}}, shared) == EMPTY
    orphan = {"metadata": {"labels": labels_of_pod}}
    assert required("Pod", orphan, {"metadata": {**pod["metadata"], **OWNED}}) == EMPTY
    off = required("Pod", pod, schedulers={"kai": {"project_label": False, "below": "root.kai"}})
    assert off.obstacles == ()


def test_node_pools_in_the_templates_of_an_owned_object() -> None:
    pool = template({"metadata": {"labels": {POOL: "gpu"}}})
    owned = {"metadata": {**OWNED, "labels": {POOL: "cpu"}}, **pool}
    where = f'spec.template.metadata.labels["{POOL}"]'
    for kind in ("apps/Deployment", "ray.io/RayCluster"):
        assert [each.where for each in required(kind, owned).obstacles] == [where]
        assert required(kind, {"metadata": {}, **pool}).obstacles == ()


QUEUE_LABEL = "kai.scheduler/queue"


ON_POD = {"metadata": {"labels": {POOL: "gpu"}}}


QUEUED = {POOL: "gpu", QUEUE_LABEL: "dev"}


@rows
def test_node_pools_in_owned_objects(kind: str, value: dict[str, Any], where: str | None) -> None:
    owned = {**value, "metadata": {**value.get("metadata", {}), **OWNED}}
    found = required(kind, owned).obstacles
    assert [each.where for each in found if "node pool" in each.message] == [where] * bool(where)
    assert required(kind, value).obstacles == ()


@rows
def test_node_pools_in_templates_of_other_objects(
    kind: str, value: dict[str, Any], where: str
) -> None:
    """The project may be that of an object which refers to the template."""
    found = required(kind, value)
    assert [each.where for each in found.obstacles] == [f'{where}.labels["{POOL}"]']
    assert "add the queue label beside the node pool" in found.obstacles[0].message
    assert required(kind, value, value) == EMPTY
    text = json.dumps(value)
    with_queue = json.loads(text.replace(json.dumps({POOL: "gpu"}), json.dumps(QUEUED)))
    assert paths(required(kind, with_queue)) == ["root.kai.dev"]
    # The project beside it does not count if the object that refers to it has one.
    labels = {POOL: "gpu", "project": "a"}
    with_project = json.loads(text.replace(json.dumps({POOL: "gpu"}), json.dumps(labels)))
    found = required(kind, with_project)
    assert f'{where}.labels["{POOL}"]' in {each.where for each in found.obstacles}
    off = {"kai": {"project_label": False, "below": "root.kai"}}
    assert required(kind, value, schedulers=off) == EMPTY


REF = {"name": "theirs"}
IN_PODS = {"podMetadata": ON_POD["metadata"]}


@rows
def test_node_pools_in_objects_that_refer_to_a_template(
    kind: str, spec: dict[str, Any], *, is_workflow: bool
) -> None:
    """The project may be that of the template."""

    def refused(**labels_of_object: str) -> bool:
        value = {"metadata": {"labels": labels_of_object}, "spec": spec}
        found = required(kind, value)
        assert required(kind, value, value) == EMPTY
        return any("uses another object's template" in each.message for each in found.obstacles)

    assert refused()
    assert not refused(**{QUEUE_LABEL: "dev"})
    assert (
        refused(project="a") is is_workflow
    )  # a WorkflowTemplate may change the Workflow's project
    text = json.dumps({"metadata": {}, "spec": spec})
    queued = json.loads(text.replace(json.dumps({POOL: "gpu"}), json.dumps(QUEUED)))
    assert paths(required(kind, queued)) == ["root.kai.dev"]


@rows
def test_projects_that_pods_of_others_get(kind: str, value: dict[str, Any], where: str) -> None:
    """They may have a node pool."""
    found = required(kind, value)
    assert [each.where for each in found.obstacles] == [f'{where}.labels["project"]']
    assert "add the queue label beside the project" in found.obstacles[0].message
    assert required(kind, value, value) == EMPTY
    beside = {"project": "a", QUEUE_LABEL: "dev"}
    queued = json.loads(json.dumps(value).replace(json.dumps({"project": "a"}), json.dumps(beside)))
    assert sorted(paths(required(kind, queued))) == ["root.kai.a", "root.kai.dev"]
    off = {"kai": {"project_label": False, "below": "root.kai"}}
    assert required(kind, value, schedulers=off) == EMPTY


WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}
REFERS = {**IN_PODS, "workflowTemplateRef": REF}
WRAPPER = "workload.codeflare.dev/AppWrapper"


def wrapped(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"components": [{"template": each} for each in objects]}}


@rows
def test_node_pools_in_objects_within_others(kind: str, value: dict[str, Any], where: str) -> None:
    found = required(kind, value)
    assert [each.where for each in found.obstacles] == [f'{where}.labels["{POOL}"]']
    assert required(kind, value, value) == EMPTY
    queued = json.loads(json.dumps(value).replace(json.dumps({POOL: "gpu"}), json.dumps(QUEUED)))
    assert paths(required(kind, queued)) == ["root.kai.dev"]


def test_owners_of_objects_within_others() -> None:
    """Operators keep them, and add their own."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": ON_POD}}
    assert required(WRAPPER, wrapped(job)) == EMPTY
    owned = wrapped({**job, "metadata": OWNED})
    found = required(WRAPPER, owned).obstacles
    assert ["KAI may join" in each.message for each in found] == [True]
    assert required(WRAPPER, owned, owned) == EMPTY
    assert required(WRAPPER, wrapped({**job, "metadata": OTHERS}), owned).obstacles


@rows
def test_node_pools_in_objects_within_others_that_refer_to_none(
    objects: list[dict[str, Any]],
) -> None:
    assert required(WRAPPER, wrapped(*objects)).obstacles == ()


@rows
def test_node_pools_in_objects_that_refer_to_none(kind: str, spec: dict[str, Any]) -> None:
    assert required(kind, {"metadata": {}, "spec": spec}) == EMPTY


def test_the_number_of_node_pools_is_bounded() -> None:
    owned = {"metadata": OWNED, "spec": [ON_POD] * (MAX_FOUND + 1)}
    found = required("apps/Deployment", owned).obstacles
    assert [each.where for each in found] == ["the object"]
    many = {"metadata": {}, "spec": {"workflowTemplateRef": REF, "a": [ON_POD] * (MAX_FOUND + 1)}}
    found = required("argoproj.io/Workflow", many).obstacles
    assert [each.where for each in found] == ["the object"]
    # Too many to know which objects refer to others.
    some = {**WORKFLOW, "spec": [ON_POD] * (2 * MAX_FOUND + 1)}
    found = required(WRAPPER, wrapped(some, {**WORKFLOW, "spec": REFERS})).obstacles
    assert [each.where for each in found] == ["the object"]
