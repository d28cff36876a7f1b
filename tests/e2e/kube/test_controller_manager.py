"""Checks of queues beside a real kube-controller-manager: whom `controllers` must list."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from queuegate_server.settings.admission import KUBERNETES_CONTROLLERS
from tests.e2e.kube.cluster import CONTROLLER_MANAGER, ApiServer, program
from tests.e2e.kube.controller_manager import (
    CORE,
    PATHS,
    add_node,
    owner,
    pods_of,
    running_controllers,
)
from tests.e2e.kube.queue_checks import (
    NAMESPACE,
    OWN_KEY,
    checked,
)
from tests.e2e.kube.reviews import SPEC, created, make_namespaces, refusal
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(600)
SECONDS = 180.0
"""How long controllers may take. A CronJob starts at a full minute."""
ACCOUNT = "system:serviceaccount:kube-system"
QUEUE = "yunikorn.apache.org/queue"
OPEN = {QUEUE: "root.open", OWN_KEY: "root.open"}
SERVICES = f"{CORE}/namespaces/{NAMESPACE}/services"
PODS = f"{CORE}/namespaces/{NAMESPACE}/pods"
CLAIM_TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
SCHEDULERS = {"yunikorn": {}, "kueue": {}, "places": [{"label": OWN_KEY}]}
MEASURED = {
    ("cronjob-controller", "Job"),
    ("daemon-set-controller", "ControllerRevision"),
    ("daemon-set-controller", "Pod"),
    ("deployment-controller", "ReplicaSet"),
    ("endpoint-controller", "Endpoints"),
    ("endpointslice-controller", "EndpointSlice"),
    ("endpointslicemirroring-controller", "EndpointSlice"),
    ("ephemeral-volume-controller", "PersistentVolumeClaim"),
    ("job-controller", "Pod"),
    ("replicaset-controller", "Pod"),
    ("replication-controller", "Pod"),
    ("resource-claim-controller", "ResourceClaim"),
    ("statefulset-controller", "ControllerRevision"),
    ("statefulset-controller", "PersistentVolumeClaim"),
    ("statefulset-controller", "Pod"),
}
"""The controllers that write objects which name queues, each with the kind."""


class Denial(NamedTuple):
    user: str
    kind: str


@pytest.fixture(scope="module")
def manager(cluster: ApiServer) -> str:
    found = program("kube-controller-manager")
    if found is None:
        pytest.skip("no kube-controller-manager here: `make kube-tools` builds it (Go, 15 min)")
    make_namespaces(cluster)
    add_node(cluster)
    return found


@contextmanager
def enforced(cluster: ApiServer, folder: Path, **queues: Any) -> Iterator[Path]:
    """Check queues in a block. Yields the audit log."""
    with checked(cluster, folder, schedulers=SCHEDULERS, **queues):
        yield folder / "audit.log"


def denials(audit: Path) -> set[Denial]:
    """Return what others than bob were denied."""
    records = map(json.loads, audit.read_text().splitlines())
    return {
        Denial(each["user"], each["object_kind"].partition(".")[0])
        for each in records
        if each["user"] != "bob"
    }


def start_all(cluster: ApiServer, prefix: str, labels: Mapping[str, str] = OPEN) -> list[str]:
    """Create, as bob, an object for each controller. Returns the names of those that own pods."""
    names = []
    for kind, path in PATHS.items():
        thing = owner(kind, f"{prefix}-{kind}", labels)
        if kind == "statefulset":
            thing["spec"]["volumeClaimTemplates"] = [volume_claim("data", labels)]
        created(cluster.ask("bob", "POST", path, thing))
        names.append(f"{prefix}-{kind}")
    return names


def start_others(cluster: ApiServer, prefix: str) -> None:
    """Create, as bob, objects whose labels controllers copy to others than pods."""
    metadata = {"name": prefix, "labels": OPEN}
    ports = [{"port": 80}]
    service = {"metadata": metadata, "spec": {"ports": ports, "selector": {"of": prefix}}}
    created(cluster.ask("bob", "POST", SERVICES, service))
    bare = {"metadata": {"name": f"{prefix}-bare"}, "spec": {"ports": ports}}
    created(cluster.ask("bob", "POST", SERVICES, bare))
    subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": ports}]
    endpoints = {"metadata": {"name": f"{prefix}-bare", "labels": OPEN}, "subsets": subsets}
    created(cluster.ask("bob", "POST", f"{CORE}/namespaces/{NAMESPACE}/endpoints", endpoints))
    requests = [{"name": "r", "exactly": {"deviceClassName": "example.com"}}]
    claim = {"metadata": {"labels": OPEN}, "spec": {"devices": {"requests": requests}}}
    template = {"metadata": {"name": prefix}, "spec": claim}
    created(cluster.ask("bob", "POST", CLAIM_TEMPLATES, template))
    volume = {"volumeClaimTemplate": volume_claim(None, OPEN)}
    pod = {
        "metadata": {"name": prefix, "labels": OPEN},
        "spec": {
            **SPEC,
            "volumes": [{"name": "scratch", "ephemeral": volume}],
            "resourceClaims": [{"name": "device", "resourceClaimTemplateName": prefix}],
        },
    }
    created(cluster.ask("bob", "POST", PODS, pod))


def volume_claim(name: str | None, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = {"labels": dict(labels)} | ({"name": name} if name else {})
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": metadata,
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }


def wait_for_pods(cluster: ApiServer, names: list[str]) -> None:
    def without_pods() -> list[str]:
        return [name for name in names if not pods_of(cluster, name)]

    eventually(without_pods, list[str](), SECONDS)


def remove_all(cluster: ApiServer, prefix: str) -> None:
    """Delete what controllers would create again."""
    for kind, path in PATHS.items():
        cluster.ask(
            "admin", "DELETE", f"{path}/{prefix}-{kind}", {"propagationPolicy": "Background"}
        )


def test_who_writes_names(cluster: ApiServer, manager: str, tmp_path: Path) -> None:
    """In warn mode with nobody listed, the audit log has all who copy names. The default of
    `controllers` lists these and nobody else."""
    with (
        enforced(cluster, tmp_path / "webhook", mode="warn", controllers=[]) as audit,
        running_controllers(tmp_path / "manager", cluster, manager, own_accounts=True),
    ):
        names = start_all(cluster, "measured")
        start_others(cluster, "measured")
        wait_for_pods(cluster, names)
        expected = {Denial(f"{ACCOUNT}:{name}", kind) for name, kind in MEASURED}
        eventually(lambda: expected - denials(audit), set[Denial](), SECONDS)
        assert denials(audit) == expected
        remove_all(cluster, "measured")
    names_of = "|".join(each.partition("(")[2].partition(")")[0] for each in KUBERNETES_CONTROLLERS)
    assert {f"{name}-controller" for name in names_of.split("|")} == {name for name, _ in MEASURED}


def test_the_default_lets_them_work(cluster: ApiServer, manager: str, tmp_path: Path) -> None:
    with (
        enforced(cluster, tmp_path / "webhook", mode="deny") as audit,
        running_controllers(tmp_path / "manager", cluster, manager, own_accounts=True),
    ):
        for kind, path in PATHS.items():
            closed = owner(kind, f"closed-{kind}", {QUEUE: "root.closed"})
            assert "bob may not submit to root.closed" in refusal(
                cluster.ask("bob", "POST", path, closed)
            )
        names = start_all(cluster, "denying")
        start_others(cluster, "denying")
        wait_for_pods(cluster, names)
        for name in names:
            assert pods_of(cluster, name)[0]["metadata"]["labels"][QUEUE] == "root.open"
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
        claims = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
        volumes = f"{CORE}/namespaces/{NAMESPACE}/persistentvolumeclaims"
        for path in (slices, claims, volumes):
            eventually(partial(is_there, cluster, path, "denying"), True, SECONDS)
        assert denials(audit) == set()
        remove_all(cluster, "denying")


def is_there(cluster: ApiServer, path: str, prefix: str) -> bool:
    items = created(cluster.ask("admin", "GET", path))["items"]
    return any(each["metadata"]["name"].startswith(prefix) for each in items)


def test_another_account_of_kube_system(cluster: ApiServer, manager: str, tmp_path: Path) -> None:
    """An add-on there is a user like any other."""
    add_on = f"{ACCOUNT}:keda-operator"
    with enforced(cluster, tmp_path / "webhook", mode="deny"):
        job = owner("job", "scaled", {QUEUE: "root.open"})
        answer = cluster.ask("admin", "POST", PATHS["job"], job, impersonated=add_on)
        assert f"{add_on} may not submit to root.open" in refusal(answer)


def test_one_account_for_all_controllers(cluster: ApiServer, manager: str, tmp_path: Path) -> None:
    """Without `--use-service-account-credentials`, the one user must be listed."""
    with running_controllers(tmp_path / "manager", cluster, manager, own_accounts=False):
        with enforced(cluster, tmp_path / "default", mode="deny") as audit:
            deployment = owner("deployment", "shared", {QUEUE: "root.open"})
            created(cluster.ask("bob", "POST", PATHS["deployment"], deployment))
            expected = {Denial(CONTROLLER_MANAGER, "ReplicaSet")}
            eventually(lambda: expected - denials(audit), set[Denial](), SECONDS)
            assert denials(audit) == expected
            assert pods_of(cluster, "shared") == []
        listed = [*KUBERNETES_CONTROLLERS, f"^{CONTROLLER_MANAGER}$"]
        with enforced(cluster, tmp_path / "listed", mode="deny", controllers=listed) as audit:
            # It is tried again after a pause that grows; a change is tried at once.
            change = {"metadata": {"labels": {"again": "1"}}}
            path = f"{PATHS['deployment']}/shared"
            created(cluster.ask("bob", "PATCH", path, change, "merge-patch+json"))
            wait_for_pods(cluster, ["shared"])
            assert denials(audit) == set()
        cluster.ask("admin", "DELETE", path, {"propagationPolicy": "Background"})
