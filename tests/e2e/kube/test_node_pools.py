"""Node pools that KAI may join with the project of another object, on a real API server."""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import RESOURCES, define
from tests.e2e.kube.queue_checks import (
    checked,
)
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, refusal
from tests.e2e.kube.test_queue_places import path_of
from tests.support.rows import table

pytestmark = pytest.mark.timeout(300)
POOL, QUEUE, PROJECT = "kai.scheduler/node-pool", "kai.scheduler/queue", "project"
POOLED, PROJECTED = json.dumps({POOL: "gpu"}), json.dumps({PROJECT: "open"})
MERGE = "merge-patch+json"
CASES: list[Mapping[str, Any]] = yaml.safe_load(
    Path("tests/e2e/kube/node_pools.yaml").read_text(encoding="utf-8")
)
REASONS = {
    "pods": "other objects' pods get this project",
    "mutator": "KAI may join the node pool with the project of the pod's owner",
    "owner": "KAI may join the node pool with the project of the pod's owner",
    "referrer": "other objects use this template or these labels",
    "template": "the object uses another object's template",
}
POLICY: str = table(__file__, "POLICY")
_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def checks(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    make_namespaces(cluster)
    groups = {case["object"]["apiVersion"].rpartition("/")[0] for case in CASES}
    define(cluster, [each for each in RESOURCES if each.group in groups])

    def is_asked(cluster: ApiServer) -> bool:
        probe = {"metadata": {"name": "probe", "labels": {PROJECT: "closed"}}, "spec": SPEC}
        return cluster.ask("bob", "POST", f"{PODS}?dryRun=All", probe).status_code == 403

    folder, schedulers = tmp_path_factory.mktemp("queues"), {"kai": {"below": "root.kai"}}
    with checked(cluster, folder, POLICY, is_asked, schedulers=schedulers):
        yield


def pooled(thing: Mapping[str, Any], queue: str | None = None) -> dict[str, Any]:
    """Return an object with a new name, and a queue's label beside the node pool."""
    text = json.dumps(thing)
    labels = next(each for each in (POOLED, PROJECTED) if each in text)
    beside = f'{labels[:-1]}, "{QUEUE}": "{queue}"}}'
    made: dict[str, Any] = json.loads(text.replace(labels, beside) if queue else text)
    made["metadata"]["name"] = f"pooled-{next(_numbers)}"
    return made


def case_id(case: Mapping[str, Any]) -> str:
    return f"{case['object']['kind']}-{case['where']}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_combination(cluster: ApiServer, case: Mapping[str, Any]) -> None:
    """Alone it is refused. Beside the label of a queue, only that queue counts."""
    thing = case["object"]
    path = path_of(thing)
    expected = f'{case["where"]}.labels["{case.get("label", POOL)}"]: {REASONS[case["reads"]]}'
    for query in ("", "?dryRun=All"):
        assert expected in refusal(cluster.ask("bob", "POST", f"{path}{query}", pooled(thing)))
    closed = refusal(cluster.ask("bob", "POST", path, pooled(thing, "closed")))
    assert "bob may not submit to root.kai.closed (set in " in closed
    queued = pooled(thing, "open")
    created(cluster.ask("bob", "POST", path, queued))
    one = f"{path}/{queued['metadata']['name']}"
    if case["reads"] != "mutator":  # the labels of a pod's owner count, not its own later ones
        without = json.loads(json.dumps(queued).replace(f'"{QUEUE}": "open"', f'"{QUEUE}": null'))
        assert expected in refusal(cluster.ask("bob", "PATCH", one, without, MERGE))
    created(cluster.ask("bob", "DELETE", one))


@pytest.mark.parametrize(("project", "is_allowed"), [("open", True), ("closed", False)])
def test_a_project_beside_the_node_pool(
    cluster: ApiServer, project: str, *, is_allowed: bool
) -> None:
    """In a pod, and in a Job within an AppWrapper: PROJECT-NODEPOOL is checked."""
    labels = {POOL: "gpu", PROJECT: project}
    pod: dict[str, Any] = {"metadata": {"labels": labels}, "spec": SPEC}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": pod}}
    wrapper: dict[str, Any] = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {},
        "spec": {"components": [{"template": job}]},
    }
    for thing in ({"apiVersion": "v1", "kind": "Pod", **pod}, wrapper):
        thing["metadata"] = {**thing["metadata"], "name": f"joined-{next(_numbers)}"}
        answer = cluster.ask("bob", "POST", path_of(thing), thing)
        if is_allowed:
            created(answer)
        else:
            assert "bob may not submit to root.kai.closed" in refusal(answer)


def test_a_project_in_another_object_within_the_wrapper(cluster: ApiServer) -> None:
    """All combinations of projects and node pools in one object are checked."""
    pool = {"metadata": {"labels": {POOL: "gpu"}}, "spec": SPEC}
    components = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": pool}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {PROJECT: "closed"}}},
    ]
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": f"joined-{next(_numbers)}"},
        "spec": {"components": [{"template": each} for each in components]},
    }
    message = refusal(cluster.ask("bob", "POST", path_of(wrapper), wrapper))
    assert "bob may not submit to root.kai.closed (set in spec.components[1]" in message
    assert "1 more queue is denied" in message  # closed-gpu


def test_a_train_job_with_a_project_of_its_own(cluster: ApiServer) -> None:
    """KAI prefers it to the project of the runtime."""
    case = next(each for each in CASES if each["object"]["kind"] == "TrainJob")
    thing = pooled(case["object"])
    thing["metadata"]["labels"] = {PROJECT: "open"}
    path = path_of(thing)
    created(cluster.ask("bob", "POST", path, thing))
    one = f"{path}/{thing['metadata']['name']}"
    refusal(cluster.ask("bob", "PATCH", one, {"metadata": {"labels": None}}, MERGE))
