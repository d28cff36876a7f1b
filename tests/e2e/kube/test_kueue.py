"""Checks of queues beside a real Kueue manager: docs/how-to/queue-access-kueue.md."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from queuegate_server.settings.admission import KUBERNETES_CONTROLLERS
from tests.e2e.kube.cluster import KUEUE_MANAGER, ApiServer, program
from tests.e2e.kube.kueue_manager import (
    LOCAL,
    POLICY,
    WORKLOADS,
    add_cluster_queues,
    ensure_local_queues,
    local_queue,
    refusals,
    running_manager,
)
from tests.e2e.kube.queue_checks import (
    JOBS,
    KUEUE,
    checked,
    job,
)
from tests.e2e.kube.reviews import created, make_namespaces, refusal
from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(300)
CONTROLLERS = list(KUBERNETES_CONTROLLERS)
LISTED = [*CONTROLLERS, f"^{KUEUE_MANAGER}$"]


@pytest.fixture(scope="module")
def kueue_log(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    manager = program("kueue")
    if manager is None:
        pytest.skip("no Kueue here: `make kube-tools` builds it (Go, 15 min)")
    make_namespaces(cluster)
    with running_manager(tmp_path_factory.mktemp("kueue"), cluster, manager) as log:
        add_cluster_queues(cluster)
        yield log


@contextmanager
def enforced(
    cluster: ApiServer, folder: Path, *, mode: str = "deny", controllers: list[str] = LISTED
) -> Iterator[None]:
    """Check queues in a block."""
    schedulers: dict[str, Any] = {"kueue": {}}
    with checked(
        *(cluster, folder, POLICY), mode=mode, schedulers=schedulers, controllers=controllers
    ):
        yield


def requesting(name: str, queue: str | None) -> dict[str, Any]:
    """Return a Job that asks for a processor, so that Kueue has something to admit."""
    thing = job(name, {KUEUE: queue} if queue else None)
    container = thing["spec"]["template"]["spec"]["containers"][0]
    thing["spec"]["template"]["spec"]["containers"] = [
        {**container, "resources": {"requests": {"cpu": "1"}}}
    ]
    thing["spec"]["suspend"] = False
    return thing


def is_suspended(cluster: ApiServer, name: str) -> bool:
    suspended: bool = created(cluster.ask("admin", "GET", f"{JOBS}/{name}"))["spec"]["suspend"]
    return suspended


def workloads_of(cluster: ApiServer, job: str) -> list[dict[str, Any]]:
    """Return the workloads that Kueue made for a job; other modules may leave theirs."""
    items = created(cluster.ask("admin", "GET", WORKLOADS))["items"]
    return [each for each in items if each["metadata"]["name"].startswith(f"job-{job}-")]


def test_a_listed_manager(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """Jobs are admitted and end, with statuses and finalizers, and no request of it is refused."""
    ensure_local_queues(cluster)
    before = refusals(kueue_log)
    with enforced(cluster, tmp_path):
        refused = cluster.ask("bob", "POST", JOBS, requesting("theirs", "team-closed"))
        assert '(set in metadata.labels["kueue.x-k8s.io/queue-name"])' in refusal(refused)
        created(cluster.ask("bob", "POST", JOBS, requesting("ours", "team-open")))
        eventually(lambda: is_suspended(cluster, "ours"), False)
        [workload] = workloads_of(cluster, "ours")
        assert workload["spec"]["queueName"] == "team-open"
        conditions = {each["type"]: each["status"] for each in workload["status"]["conditions"]}
        assert conditions["Admitted"] == "True"
        background = {"propagationPolicy": "Background"}
        cluster.ask("bob", "DELETE", f"{JOBS}/ours", background)
        eventually(lambda: cluster.ask("bob", "GET", f"{JOBS}/ours").status_code, 404)
        # The garbage collector would delete it after its owner.
        cluster.ask("admin", "DELETE", f"{WORKLOADS}/{workload['metadata']['name']}")
        eventually(lambda: len(workloads_of(cluster, "ours")), 0)
    assert refusals(kueue_log) == before


def test_a_manager_that_is_not_listed(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """It copies the name into a Workload as a user of its own, who has no access."""
    ensure_local_queues(cluster)
    before = refusals(kueue_log)
    with enforced(cluster, tmp_path, controllers=CONTROLLERS):
        created(cluster.ask("bob", "POST", JOBS, requesting("stuck", "team-open")))
        eventually(lambda: refusals(kueue_log) > before, True)
        assert is_suspended(cluster, "stuck")
        assert workloads_of(cluster, "stuck") == []
        cluster.ask("bob", "DELETE", f"{JOBS}/stuck", {"propagationPolicy": "Background"})
        eventually(lambda: cluster.ask("bob", "GET", f"{JOBS}/stuck").status_code, 404)


def test_its_defaulting_comes_first(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """A Job without a queue gets the LocalQueue `default`, which the webhook then checks."""
    with enforced(cluster, tmp_path):
        probe = f"{JOBS}?dryRun=All"
        created(cluster.ask("bob", "POST", probe, requesting("plain", None)))
        default = local_queue("default", "cluster-closed")
        created(cluster.ask("alice", "POST", LOCAL, default))

        def labels() -> Any:
            answer = cluster.ask("alice", "POST", probe, requesting("plain", None))
            return created(answer)["metadata"].get("labels", {}).get(KUEUE)

        eventually(labels, "default")
        message = refusal(cluster.ask("bob", "POST", probe, requesting("plain", None)))
        assert "bob may not submit to root.namespaces.dev.default" in message
    created(cluster.ask("admin", "DELETE", f"{LOCAL}/default"))


def test_local_queues(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """A LocalQueue needs access to its ClusterQueue."""
    with enforced(cluster, tmp_path):
        created(cluster.ask("bob", "POST", LOCAL, local_queue("mine", "cluster-open")))
        message = refusal(cluster.ask("bob", "POST", LOCAL, local_queue("other", "cluster-closed")))
        assert "bob may not submit to root.clusterqueues.cluster-closed" in message
        created(cluster.ask("bob", "DELETE", f"{LOCAL}/mine"))


def test_warnings(cluster: ApiServer, kueue_log: Path, tmp_path: Path) -> None:
    """With `mode: warn`, the Job is created and admitted, and the user is warned."""
    ensure_local_queues(cluster)
    with enforced(cluster, tmp_path, mode="warn"):
        probe = f"{JOBS}?dryRun=All"

        def warning() -> str:
            answer = cluster.ask("bob", "POST", probe, requesting("warned", "team-closed"))
            created(answer)
            return answer.headers.get("Warning", "")

        eventually(lambda: "bob may not submit to" in warning(), True)
        created(cluster.ask("bob", "POST", JOBS, requesting("warned", "team-closed")))
        eventually(lambda: is_suspended(cluster, "warned"), False)
    cluster.ask("bob", "DELETE", f"{JOBS}/warned", {"propagationPolicy": "Background"})
