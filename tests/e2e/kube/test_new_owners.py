"""New owners of objects with a node pool, which KAI joins with the project of the owner."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import define
from tests.e2e.kube.queue_checks import NAMESPACE, enforced_by, serving, write_settings
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, refusal

pytestmark = pytest.mark.timeout(300)
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
CLUSTERS = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
POOL, PROJECT = {"kai.scheduler/node-pool": "gpu"}, {"project": "open"}
OWNERS = {
    name: {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name}
    for name in ("theirs", "others")
}
POLICY = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: kai
            queues:
              - name: open
                submitacl: bob
              - name: open-gpu
                submitacl: bob
              - name: closed
                submitacl: alice
"""
REFUSED = "KAI may join the node pool with the project of the pod's owner"


@pytest.fixture(scope="module", autouse=True)
def checks(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    make_namespaces(cluster)
    define(cluster)
    queues = {"mode": "deny", "groups": "kubernetes", "schedulers": {"kai": {"below": "root.kai"}}}
    config, ca = write_settings(tmp_path_factory.mktemp("queues"), queues, POLICY)

    def is_asked(cluster: ApiServer) -> bool:
        probe = {"metadata": {"name": "probe", "labels": {"project": "closed"}}, "spec": SPEC}
        return cluster.ask("bob", "POST", f"{PODS}?dryRun=All", probe).status_code == 403

    with (
        serving(config, ca) as running,
        enforced_by(cluster, config, ca, running.address, is_asked),
    ):
        yield


def pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": SPEC}


def set_owners(cluster: ApiServer, path: str, *names: str, user: str = "bob") -> Any:
    """Change nothing but the owners of an object."""
    change = {"metadata": {"ownerReferences": [OWNERS[name] for name in names]}}
    return cluster.ask(user, "PATCH", path, change, "merge-patch+json")


def test_a_pod(cluster: ApiServer) -> None:
    created(cluster.ask("bob", "POST", PODS, pod("pooled", {**POOL, **PROJECT})))
    path = f"{PODS}/pooled"
    assert REFUSED in refusal(set_owners(cluster, path, "theirs"))
    created(set_owners(cluster, path, "theirs", user=CONTROLLER))
    created(set_owners(cluster, path, "theirs"))
    assert REFUSED in refusal(set_owners(cluster, path, "theirs", "others"))
    assert REFUSED in refusal(set_owners(cluster, path, "others"))


def test_owners_are_removed(cluster: ApiServer) -> None:
    """As the garbage collector does if dependents become orphans."""
    owners = [OWNERS["theirs"], OWNERS["others"]]
    thing = pod("owned", POOL)
    thing["metadata"]["ownerReferences"] = owners
    created(cluster.ask(CONTROLLER, "POST", PODS, thing))
    path = f"{PODS}/owned"
    created(set_owners(cluster, path, "theirs"))
    created(set_owners(cluster, path))
    assert REFUSED in refusal(set_owners(cluster, path, "theirs"))


def test_pods_without_a_node_pool_or_with_a_queue(cluster: ApiServer) -> None:
    created(cluster.ask("bob", "POST", PODS, pod("plain", PROJECT)))
    created(set_owners(cluster, f"{PODS}/plain", "theirs"))
    queue = {**POOL, "kai.scheduler/queue": "open"}
    created(cluster.ask("bob", "POST", PODS, pod("queued", queue)))
    created(set_owners(cluster, f"{PODS}/queued", "theirs"))


def test_templates(cluster: ApiServer) -> None:
    """In kinds of Kubernetes, and in custom resources, which no condition searches."""
    labels = {**POOL, "a": "b"}
    template = {"metadata": {"labels": labels}, "spec": SPEC}
    deployment = {
        "metadata": {"name": "pooled"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    created(cluster.ask("bob", "POST", DEPLOYMENTS, deployment))
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "pooled"},
        "spec": {"headGroupSpec": {"template": template}},
    }
    created(cluster.ask("bob", "POST", CLUSTERS, ray))
    for path in (DEPLOYMENTS, CLUSTERS):
        assert REFUSED in refusal(set_owners(cluster, f"{path}/pooled", "theirs"))
    plain = {**ray, "metadata": {"name": "plain"}, "spec": {}}
    created(cluster.ask("bob", "POST", CLUSTERS, plain))
    created(set_owners(cluster, f"{CLUSTERS}/plain", "theirs"))
