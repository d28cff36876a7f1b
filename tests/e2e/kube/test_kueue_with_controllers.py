"""Checks of queues beside a Kueue manager and a kube-controller-manager that run together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.settings.admission import KUBERNETES_CONTROLLERS
from tests.e2e.kube.cluster import KUEUE_MANAGER, ApiServer, program
from tests.e2e.kube.controller_manager import PATHS, owner, pods_of, running_controllers
from tests.e2e.kube.kueue_manager import (
    POLICY,
    WORKLOADS,
    add_cluster_queues,
    ensure_local_queues,
    refusals,
    running_manager,
)
from tests.e2e.kube.queue_checks import KUEUE, checked
from tests.e2e.kube.reviews import created, make_namespaces, refusal
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(600)
SECONDS = 240.0
"""How long managers may take. A CronJob starts at a full minute."""
KINDS = ("job", "deployment", "cronjob")


@pytest.fixture(scope="module")
def kueue_log(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    kueue, controllers = program("kueue"), program("kube-controller-manager")
    if kueue is None or controllers is None:
        pytest.skip("no Kueue and controllers here: `make kube-tools` builds them (Go, 15 min)")
    make_namespaces(cluster)
    folder = tmp_path_factory.mktemp("managers")
    frameworks = ("batch/job", "pod", "deployment")
    with (
        running_manager(folder, cluster, kueue, frameworks) as log,
        running_controllers(folder / "controllers", cluster, controllers, own_accounts=True),
    ):
        add_cluster_queues(cluster)
        ensure_local_queues(cluster)
        yield log


def queued(kind: str, name: str, queue: str) -> dict[str, Any]:
    """Return an object whose pods ask for a processor, with the label of a user."""
    thing = owner(kind, name, {})
    job_or_thing = thing["spec"]["jobTemplate"] if kind == "cronjob" else thing
    job_or_thing.setdefault("metadata", {})["labels"] = {KUEUE: queue}
    spec = job_or_thing["spec"]["template"]["spec"]
    resources = {"requests": {"cpu": "1"}}
    spec["containers"] = [{**each, "resources": resources} for each in spec["containers"]]
    return thing


def admitted_pods(cluster: ApiServer, name: str) -> list[str]:
    """Return the pods of an object that no gate of Kueue holds."""
    return [
        each["metadata"]["name"]
        for each in pods_of(cluster, name)
        if not each["spec"].get("schedulingGates")
    ]


def test_workloads_with_the_label(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """The user is checked. The controllers and Kueue copy the name, and nobody refuses them."""
    controllers = [*KUBERNETES_CONTROLLERS, f"^{KUEUE_MANAGER}$"]
    before = refusals(kueue_log)
    with checked(cluster, tmp_path, POLICY, schedulers={"kueue": {}}, controllers=controllers):
        for kind in KINDS:
            closed = queued(kind, f"closed-{kind}", "team-closed")
            answer = cluster.ask("bob", "POST", PATHS[kind], closed)
            assert "bob may not submit to root.namespaces.dev.team-closed" in refusal(answer)
        for kind in KINDS:
            created(cluster.ask("bob", "POST", PATHS[kind], queued(kind, kind, "team-open")))

        def waiting() -> list[str]:
            return [kind for kind in KINDS if not admitted_pods(cluster, kind)]

        eventually(waiting, list[str](), SECONDS)
        workloads = created(cluster.ask("admin", "GET", WORKLOADS))["items"]
        assert {each["spec"]["queueName"] for each in workloads} == {"team-open"}
        owners = {each["metadata"]["ownerReferences"][0]["kind"] for each in workloads}
        assert owners == {"Job", "Pod"}  # Kueue queues each pod of the Deployment
        assert refusals(kueue_log) == before
        records = map(json.loads, (tmp_path / "audit.log").read_text().splitlines())
        assert {each["user"] for each in records} == {"bob"}  # the others are not even checked
        for kind in KINDS:
            path = f"{PATHS[kind]}/{kind}"
            cluster.ask("admin", "DELETE", path, {"propagationPolicy": "Background"})
