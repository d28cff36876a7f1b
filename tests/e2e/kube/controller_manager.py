"""A real kube-controller-manager beside a real API server, and objects for its controllers.

There is no kubelet, so pods are created but never run.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.kube.cluster import CONTROLLER_MANAGER, ApiServer, running
from tests.e2e.kube.queue_checks import NAMESPACE
from tests.e2e.kube.reviews import SPEC, created
from tests.support.servers.free_ports import free_port

CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch/v1"
NODE = "node-1"
PATHS = {
    kind: f"{group}/namespaces/{NAMESPACE}/{kind}s"
    for group, kinds in (
        (APPS, ("deployment", "replicaset", "statefulset", "daemonset")),
        (BATCH, ("job", "cronjob")),
        (CORE, ("replicationcontroller",)),
    )
    for kind in kinds
}
"""Where objects are created whose controllers create pods, by kind in lower case."""


@contextmanager
def running_controllers(
    folder: Path, cluster: ApiServer, program: str, *, own_accounts: bool
) -> Iterator[Path]:
    """Run the manager in a block. Yields its log.

    Args:
        folder: For its files.
        cluster: The API server.
        program: The manager.
        own_accounts: Whether each controller has a service account of its own.
    """
    folder.mkdir(exist_ok=True)
    (folder / "kubeconfig").write_text(cluster.kubeconfig(CONTROLLER_MANAGER))
    port = free_port()
    arguments = {
        "kubeconfig": folder / "kubeconfig",
        "use-service-account-credentials": str(own_accounts).lower(),
        "leader-elect": "false",
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": folder / "certificates",
        # There is no kubelet that reports.
        "node-monitor-grace-period": "24h",
    }
    with running(folder, program, arguments):
        yield folder / f"{Path(program).name}.log"


def add_node(cluster: ApiServer) -> None:
    """Create a node that is ready, without which no DaemonSet has a pod."""
    nodes = f"{CORE}/nodes"
    node = {"metadata": {"name": NODE}, "spec": {"taints": []}}
    created(cluster.ask("admin", "POST", nodes, node))
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    status = {"status": {"conditions": [ready]}}
    path = f"{nodes}/{NODE}/status"
    created(cluster.ask("admin", "PATCH", path, status, "merge-patch+json"))


def pods_of(cluster: ApiServer, name: str) -> list[dict[str, Any]]:
    """Return the pods that an object's controller created."""
    path = f"{CORE}/namespaces/{NAMESPACE}/pods?labelSelector=of%3D{name}"
    items: list[dict[str, Any]] = created(cluster.ask("admin", "GET", path))["items"]
    return items


def owner(kind: str, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return an object of a kind whose template of a pod has labels."""
    selected = {"of": name}
    template = {"metadata": {"labels": {**labels, **selected}}, "spec": SPEC}
    ends = {**template, "spec": {**SPEC, "restartPolicy": "Never"}}
    matched: dict[str, Any] = {"selector": {"matchLabels": selected}, "template": template}
    spec: dict[str, Any] = {
        "deployment": matched,
        "replicaset": matched,
        "daemonset": matched,
        "statefulset": {**matched, "serviceName": "none"},
        "replicationcontroller": {"selector": selected, "template": template},
        "job": {"template": ends},
        "cronjob": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ends}}},
    }[kind]
    return {"metadata": {"name": name}, "spec": spec}
