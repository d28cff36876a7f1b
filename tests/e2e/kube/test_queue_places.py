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
    DRY,
    JOBS,
    KUEUE,
    NAMESPACE,
    OWN_KEY,
    SCHEDULERS,
    QueueWebhook,
    job,
    register,
    serving,
    wait_until_enforced,
    write_settings,
)
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, refusal

pytestmark = pytest.mark.timeout(300)
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
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


def labelled_pod(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


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


@pytest.mark.parametrize("subresource", ["status", "resize", "ephemeralcontainers"])
def test_subresources_of_pods(cluster: ApiServer, subresource: str) -> None:
    """Some of them change labels. None puts a pod into a queue of somebody else."""
    name = f"by-{subresource}"
    created(cluster.ask("bob", "POST", PODS, labelled_pod(name, {YUNIKORN: "root.open"})))
    change = {"metadata": {"labels": {YUNIKORN: "root.closed"}}}
    answer = cluster.ask("bob", "PATCH", f"{PODS}/{name}/{subresource}", change, "merge-patch+json")
    if subresource == "status":
        assert "bob may not submit to root.closed" in refusal(answer)
    labels = created(cluster.ask("bob", "GET", f"{PODS}/{name}"))["metadata"]["labels"]
    assert labels == {YUNIKORN: "root.open"}


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


def test_the_status_of_a_workload_changes_no_queue(cluster: ApiServer) -> None:
    """Kueue admits a Workload by writing its ClusterQueue there."""
    workloads = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "admitted"},
        "spec": {"queueName": "team-open"},
    }
    created(cluster.ask("bob", "POST", workloads, workload))
    status = f"{workloads}/admitted/status"

    def admitted(queue: str) -> Any:
        change = {"status": {"admission": {"clusterQueue": queue}}}
        return cluster.ask("bob", "PATCH", status, change, "merge-patch+json")

    assert "bob may not submit to root.clusterqueues.cluster-closed" in refusal(
        admitted("cluster-closed")
    )
    created(admitted("cluster-open"))
    assert "(set in status.admission.clusterQueue)" in refusal(admitted("cluster-closed"))
    conditions = {"status": {"conditions": [{"type": "Finished"}]}}
    created(cluster.ask("bob", "PATCH", status, conditions, "merge-patch+json"))
    created(cluster.ask("bob", "DELETE", f"{workloads}/admitted"))


def test_a_local_queue_in_an_object_without_a_namespace(cluster: ApiServer) -> None:
    """Kueue takes the queue of that name in the namespace of each TrainJob."""
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "shared"},
        "spec": {"template": {"metadata": {"labels": {KUEUE: "team-open"}}}},
    }
    path = f"{path_of(runtime)}{DRY}"
    message = refusal(cluster.ask("bob", "POST", path, runtime))
    assert "bob may not submit to root.namespaces" in message
    assert "root.namespaces." not in message
    created(cluster.ask("admin", "POST", path, runtime, impersonated="platform"))


def test_an_expression_is_refused(cluster: ApiServer) -> None:
    """Argo would evaluate it after the check."""
    workflow: dict[str, Any] = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "evaluated"},
        "spec": {"workflowMetadata": {"labelsFrom": {KUEUE: {"expression": "'team-open'"}}}},
    }
    assert "an expression gives the key or the value" in refusal(
        cluster.ask("bob", "POST", path_of(workflow), workflow)
    )
    workflow["spec"]["workflowMetadata"]["labelsFrom"] = {"other": {"expression": "'x'"}}
    created(cluster.ask("bob", "POST", path_of(workflow), workflow))


@pytest.mark.parametrize("pool", ["closed", "open"])
def test_a_project_is_joined_with_a_node_pool_in_the_template(
    cluster: ApiServer, pool: str
) -> None:
    """The queue `open-open` is missing, so only an ACL of `root.kai` or above could allow it."""
    thing = job(f"pool-{pool}", {"project": "open"})
    thing["spec"]["template"]["metadata"] = {"labels": {"kai.scheduler/node-pool": pool}}
    message = refusal(cluster.ask("bob", "POST", JOBS, thing))
    assert f'submit to root.kai.open-{pool} (set in metadata.labels["project"])' in message


def test_scale_and_eviction_name_no_queue(cluster: ApiServer) -> None:
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    template = {"metadata": {"labels": {"a": "b", YUNIKORN: "root.closed"}}, "spec": SPEC}
    deployment = {
        "metadata": {"name": "scaled"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    created(cluster.ask("alice", "POST", deployments, deployment))
    scale = {"spec": {"replicas": 3}}
    made = cluster.ask("bob", "PATCH", f"{deployments}/scaled/scale", scale, "merge-patch+json")
    assert created(made)["spec"] == {"replicas": 3}
    created(cluster.ask("alice", "POST", PODS, labelled_pod("evicted", {YUNIKORN: "root.closed"})))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}}
    created(cluster.ask("bob", "POST", f"{PODS}/evicted/eviction", eviction))


def test_ephemeral_containers_name_no_queue(cluster: ApiServer) -> None:
    created(cluster.ask("alice", "POST", PODS, labelled_pod("debugged", {YUNIKORN: "root.closed"})))
    change = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    path = f"{PODS}/debugged/ephemeralcontainers"
    created(cluster.ask("bob", "PATCH", path, change, "strategic-merge-patch+json"))


@pytest.mark.parametrize("path", [f"{PODS}/bound/binding", PODS.replace("pods", "bindings")])
def test_a_binding_writes_annotations(cluster: ApiServer, path: str) -> None:
    created(cluster.ask("bob", "POST", PODS, labelled_pod("bound", {})))
    binding: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "bound", "annotations": {YUNIKORN: "root.closed"}},
        "target": {"kind": "Node", "name": "n"},
    }
    assert "bob may not submit to root.closed" in refusal(cluster.ask("bob", "POST", path, binding))
    binding["metadata"]["annotations"] = {YUNIKORN: "root.open"}
    created(cluster.ask("bob", "POST", path, binding))
    bound = created(cluster.ask("bob", "GET", f"{PODS}/bound"))
    assert bound["metadata"]["annotations"] == {YUNIKORN: "root.open"}
    created(cluster.ask("bob", "DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 0}))


def test_the_impersonated_user_counts(cluster: ApiServer) -> None:
    """`kubectl --as`: neither the impersonator's access nor the fact of impersonating counts."""

    def attempt(queue: str, user: str) -> Any:
        thing = job("impersonated", {KUEUE: queue})
        return cluster.ask("admin", "POST", f"{JOBS}?dryRun=All", thing, impersonated=user)

    created(attempt("team-open", "bob"))
    assert "bob may not submit to" in refusal(attempt("team-closed", "bob"))
    created(attempt("team-closed", "alice"))
    assert "alice may not submit to" in refusal(attempt("team-open", "alice"))
    assert "admin may not submit to" in refusal(attempt("team-open", ""))


def test_a_service_account_is_a_user(cluster: ApiServer) -> None:
    """Only listed controllers are not checked. Owner references exempt nobody."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    child = labelled_pod("child", {YUNIKORN: "root.closed"})
    child["metadata"]["ownerReferences"] = [owner]
    assert "bob may not submit to" in refusal(cluster.ask("bob", "POST", PODS, child))
    created(cluster.ask(CONTROLLER, "POST", PODS, child))
    account = "system:serviceaccount:dev:pipeline"
    thing = job("by-account", {KUEUE: "team-open"})
    answer = cluster.ask("admin", "POST", JOBS, thing, impersonated=account)
    assert f"{account} may not submit to" in refusal(answer)


def test_generated_names(cluster: ApiServer) -> None:
    thing = job("x", {KUEUE: "team-closed"})
    thing["metadata"] = {"generateName": "run-", "labels": {KUEUE: "team-closed"}}
    assert "bob may not submit to" in refusal(cluster.ask("bob", "POST", JOBS, thing))
    thing["metadata"]["labels"] = {KUEUE: "team-open"}
    made = created(cluster.ask("bob", "POST", JOBS, thing))
    assert made["metadata"]["name"].startswith("run-")


def test_a_selector_names_no_queue(cluster: ApiServer) -> None:
    """A pod that keeps away from pods of a queue is not in that queue."""
    chosen = {"matchLabels": {YUNIKORN: "root.closed"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": chosen}
    spec = {
        **SPEC,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term},
        ],
    }
    created(
        cluster.ask(
            "bob", "POST", PODS, {**labelled_pod("away", {YUNIKORN: "root.open"}), "spec": spec}
        )
    )


def test_several_names(cluster: ApiServer) -> None:
    """All of them must be allowed."""
    labels = {YUNIKORN: "root.open", "kai.scheduler/queue": "closed"}
    message = refusal(cluster.ask("bob", "POST", PODS, labelled_pod("several", labels)))
    assert 'root.kai.closed (set in metadata.labels["kai.scheduler/queue"])' in message
    labels["kueue.x-k8s.io/queue-name"] = "team-closed"
    message = refusal(cluster.ask("bob", "POST", PODS, labelled_pod("several", labels)))
    assert "1 more queue is denied" in message


def test_a_missing_queue(cluster: ApiServer) -> None:
    """Denied as `queuegate check` denies it; no group is named in the message."""
    for labels in ({KUEUE: "absent"}, {OWN_KEY: "root.absent"}, {"kai.scheduler/queue": "absent"}):
        message = refusal(cluster.ask("bob", "POST", JOBS, job("absent", labels)))
        assert "bob may not submit to root." in message
    malformed = job("malformed", {OWN_KEY: "not.below.root"})
    assert OWN_KEY in refusal(cluster.ask("bob", "POST", JOBS, malformed))


def test_removing_a_name_is_allowed(cluster: ApiServer) -> None:
    """With `unqueued: allow`, an object without a queue may be created, so it may become one."""
    created(cluster.ask("alice", "POST", JOBS, job("removed", {KUEUE: "team-closed"})))
    change = {"metadata": {"labels": {KUEUE: None}}}
    made = created(cluster.ask("bob", "PATCH", f"{JOBS}/removed", change, "merge-patch+json"))
    assert KUEUE not in made["metadata"].get("labels", {})
    back = {"metadata": {"labels": {KUEUE: "team-closed"}}}
    answer = cluster.ask("bob", "PATCH", f"{JOBS}/removed", back, "merge-patch+json")
    assert "bob may not submit to" in refusal(answer)


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


def test_a_component_that_is_no_pod_names_no_queue(cluster: ApiServer) -> None:
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "with-a-service"},
        "spec": {
            "components": [
                {
                    "template": {
                        "apiVersion": "v1",
                        "kind": kind,
                        "metadata": {"labels": {"queue": "root.closed"}},
                    }
                }
                for kind in ("Service", "PersistentVolumeClaim", "ConfigMap")
            ]
        },
    }
    created(cluster.ask("bob", "POST", path_of(wrapper), wrapper))


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
