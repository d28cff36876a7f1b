"""Names of queues in all kinds of objects, on a real API server: allowed, and denied."""

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
    JOBS,
    KUEUE,
    NAMESPACE,
    SCHEDULERS,
    QueueWebhook,
    job,
    register,
    serving,
    wait_until_enforced,
    write_settings,
)
from tests.e2e.kube.reviews import created, make_namespaces, refusal
from tests.e2e.kube.scenarios import play, scenarios

pytestmark = pytest.mark.timeout(300)
CASES: list[Mapping[str, Any]] = yaml.safe_load(
    Path("tests/e2e/kube/queue_places.yaml").read_text(encoding="utf-8")
)
NAMES = {
    "path": ("root.open", "root.closed"),
    "flat": ("open", "closed"),
    "local": ("team-open", "team-closed"),
    "cluster": ("cluster-open", "cluster-closed"),
    "cohort": ("cluster-open", "cluster-closed"),
}
PATHS = {
    "path": "root.closed",
    "flat": "root.SCHEDULER.closed",
    "local": "root.namespaces.dev.team-closed",
    "cluster": "root.clusterqueues.cluster-closed",
    "cohort": "root.cohorts.cluster-closed",
}
YUNIKORN = "yunikorn.apache.org/queue"
APPLY = "apply-patch+yaml"
_numbers = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWebhook]:
    make_namespaces(cluster)
    define(cluster)
    queues = {"mode": "deny", "groups": "kubernetes", "schedulers": SCHEDULERS}
    config, ca = write_settings(tmp_path_factory.mktemp("queues"), queues)
    with serving(config, ca) as running:
        register(cluster, config, ca, running.address)
        wait_until_enforced(cluster)
        yield running


def plural(thing: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the name of a kind's resource, and whether it belongs to a namespace."""
    group = thing["apiVersion"].rpartition("/")[0]
    for each in RESOURCES:
        if (each.group, each.kind) == (group, thing["kind"]):
            return each.plural, each.is_namespaced
    return f"{thing['kind'].lower()}s", thing["kind"] != "Namespace"


def path_of(thing: Mapping[str, Any]) -> str:
    version = thing["apiVersion"]
    resource, is_namespaced = plural(thing)
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    return f"{root}/namespaces/{NAMESPACE}/{resource}" if is_namespaced else f"{root}/{resource}"


def named(case: Mapping[str, Any], queue: str) -> dict[str, Any]:
    """Return the object of a case with the name of a queue, and a new name."""
    thing: dict[str, Any] = json.loads(json.dumps(case["object"]).replace("QUEUE", queue))
    thing["metadata"]["name"] = f"thing-{next(_numbers)}"
    return thing


def case_id(case: Mapping[str, Any]) -> str:
    return f"{case['scheduler']}-{case['object']['kind']}-{case['where']}"


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_every_place(cluster: ApiServer, case: Mapping[str, Any]) -> None:
    """Bob creates the object with a queue of his and with one of Alice's, and changes the name."""
    own, other = NAMES[case["queue"]]
    denied = named(case, other)
    path = path_of(denied)
    verb = case.get("access", "submit to")
    queue = PATHS[case["queue"]].replace("SCHEDULER", case["scheduler"])
    expected = f"bob may not {verb} {queue} (set in {case['where']}): no ACL on {queue} or above"
    for query in ("", "?dryRun=All"):
        assert expected in refusal(cluster.ask("bob", "POST", f"{path}{query}", denied))
    applied = f"{path}/{denied['metadata']['name']}?fieldManager=bob"
    assert expected in refusal(cluster.ask("bob", "PATCH", applied, denied, APPLY))
    allowed = named(case, own)
    thing = f"{path}/{allowed['metadata']['name']}"
    created(cluster.ask("bob", "PATCH", f"{thing}?fieldManager=bob", allowed, APPLY))
    changed = {**named(case, other), "metadata": {**denied["metadata"]}}
    changed["metadata"]["name"] = allowed["metadata"]["name"]
    answer = cluster.ask("bob", "PATCH", f"{thing}?fieldManager=bob", changed, APPLY)
    if answer.status_code == 422:
        assert "immutable" in answer.text or "Forbidden" in answer.text
    else:
        assert expected in refusal(answer)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_old_objects_stay_editable(cluster: ApiServer, case: Mapping[str, Any]) -> None:
    """Bob changes and deletes an object that Alice has created in a queue of hers."""
    thing = named(case, NAMES[case["queue"]][1])
    path = path_of(thing)
    created(cluster.ask("alice", "POST", path, thing))
    one = f"{path}/{thing['metadata']['name']}"
    change = {"metadata": {"labels": {"unrelated": "x"}, "finalizers": ["example.com/f"]}}
    created(cluster.ask("bob", "PATCH", one, change, "merge-patch+json"))
    change = {"metadata": {"finalizers": None}}  # type: ignore[dict-item]
    created(cluster.ask("bob", "PATCH", one, change, "merge-patch+json"))
    options = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
    assert cluster.ask("bob", "DELETE", one, options).status_code in {200, 202}


@pytest.mark.parametrize(
    "case",
    [each for each in CASES if each["object"]["apiVersion"] in {"v1", "apps/v1", "batch/v1"}],
    ids=case_id,
)
def test_status_changes_no_queue(cluster: ApiServer, case: Mapping[str, Any]) -> None:
    """Whether the API server ignores labels in a status or the webhook refuses them."""
    thing = named(case, NAMES[case["queue"]][0])
    path = path_of(thing)
    made = created(cluster.ask("bob", "POST", path, thing))
    one = f"{path}/{thing['metadata']['name']}"
    change = {"metadata": {"labels": {KUEUE: "team-closed", YUNIKORN: "root.closed"}}}
    answer = cluster.ask("bob", "PATCH", f"{one}/status", change, "merge-patch+json")
    assert answer.status_code in {200, 403, 404}, answer.text
    after = created(cluster.ask("bob", "GET", one))["metadata"].get("labels")
    assert after == made["metadata"].get("labels")
    harmless = {"metadata": {"annotations": {"unrelated": "x"}}}
    answer = cluster.ask("bob", "PATCH", f"{one}/status", harmless, "merge-patch+json")
    assert answer.status_code in {200, 404}


@scenarios("queue_scenarios.yaml")
def test_scenarios(cluster: ApiServer, steps: list[dict[str, Any]]) -> None:
    play(cluster, steps)


def test_finalizing_a_namespace_changes_no_queue(cluster: ApiServer) -> None:
    """This subresource writes labels and annotations; its finalizers can be removed."""
    annotations = {"scheduling.volcano.sh/queue-name": "open"}
    namespace = {"metadata": {"name": "finalized", "annotations": annotations}}
    created(cluster.ask("bob", "POST", "/api/v1/namespaces", namespace))
    one = "/api/v1/namespaces/finalized"
    thing = created(cluster.ask("bob", "GET", one))
    thing["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "closed"
    answer = cluster.ask("bob", "PUT", f"{one}/finalize", thing)
    assert "bob may not submit to root.volcano.closed" in refusal(answer)
    thing["metadata"]["annotations"] = {**annotations, "unrelated": "x"}
    thing["spec"]["finalizers"] = []
    made = created(cluster.ask("bob", "PUT", f"{one}/finalize", thing))
    assert made["metadata"]["annotations"] == {**annotations, "unrelated": "x"}
    created(cluster.ask("bob", "DELETE", one))


def test_generated_names(cluster: ApiServer) -> None:
    thing = job("x", {KUEUE: "team-closed"})
    thing["metadata"] = {"generateName": "run-", "labels": {KUEUE: "team-closed"}}
    assert "bob may not submit to" in refusal(cluster.ask("bob", "POST", JOBS, thing))
    thing["metadata"]["labels"] = {KUEUE: "team-open"}
    made = created(cluster.ask("bob", "POST", JOBS, thing))
    assert made["metadata"]["name"].startswith("run-")


def test_a_request_with_too_many_queues(cluster: ApiServer) -> None:
    run = {
        "apiVersion": "unread.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "many", "labels": {KUEUE: "team-open"}},
        "spec": {
            "templates": [{"metadata": {"labels": {KUEUE: f"q-{number}"}}} for number in range(65)]
        },
    }
    path = path_of(run)
    assert "64 queues" in refusal(cluster.ask("bob", "POST", path, run))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        # With its managed fields, it has more entries than the limit.
        ({f"key-{number}": "" for number in range(70_000)}, ""),
        ({"args": [0] * 120_000}, "the object has more than 100000 entries"),
    ],
)
def test_large_objects(cluster: ApiServer, spec: dict[str, Any], message: str) -> None:
    large = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "large"},
        "spec": spec,
    }
    answer = cluster.ask("bob", "POST", f"{path_of(large)}?dryRun=All", large)
    if message:
        assert message in refusal(answer)
    else:
        created(answer)
