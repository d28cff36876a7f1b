"""One name, several queues: of two schedulers, and of Kueue's ClusterQueues and Cohorts."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import RESOURCES, define
from tests.e2e.kube.queue_checks import (
    DRY,
    NAMESPACE,
    checked,
    submit,
    write_settings,
)
from tests.e2e.kube.reviews import PODS, SPEC, created, make_namespaces, refusal
from tests.support.rows import table

pytestmark = pytest.mark.timeout(300)
POLICY: str = table(__file__, "POLICY")
"""Bob may use all LocalQueues of the namespace dev. ClusterQueues and Cohorts of equal names belong
to different people. No queue of KAI or Volcano has the name of a LocalQueue or a namespace."""
SEPARATE = {"volcano": {"below": "root.volcano"}, "kai": {"below": "root.kai"}}
PIPELINE = "system:serviceaccount:dev:pipeline"
GROVE: dict[str, Any] = {
    "places": [{"kind": "grove.io/PodCliqueSet", "field": "spec.queue"}],
    **SEPARATE,
}


@pytest.fixture(scope="module", autouse=True)
def definitions(cluster: ApiServer) -> None:
    make_namespaces(cluster)
    groups = {"kueue.x-k8s.io", "batch.volcano.sh", "grove.io"}
    define(cluster, [each for each in RESOURCES if each.group in groups])


def kai_pod(queue: str) -> tuple[str, dict[str, Any]]:
    """Return where to create a pod in a queue of KAI, and the pod."""
    return PODS, {"metadata": {"name": "p", "labels": {"kai.scheduler/queue": queue}}, "spec": SPEC}


def volcano_job(queue: str) -> tuple[str, dict[str, Any]]:
    group = "batch.volcano.sh/v1alpha1"
    thing = {"apiVersion": group, "kind": "Job", "metadata": {"name": "j"}}
    return f"/apis/{group}/namespaces/{NAMESPACE}/jobs", {**thing, "spec": {"queue": queue}}


def kueue(kind: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    """Return where to create an object of Kueue, and the object."""
    group = "kueue.x-k8s.io/v1beta2"
    within = f"namespaces/{NAMESPACE}/" if kind == "LocalQueue" else ""
    thing = {"apiVersion": group, "kind": kind, "metadata": {"name": "q"}, "spec": spec}
    return f"/apis/{group}/{within}{kind.lower()}s", thing


def ask(cluster: ApiServer, user: str, request: tuple[str, dict[str, Any]]) -> Any:
    """Return the answer to a new object of a user, as a dry run."""
    path, thing = request
    return cluster.ask("admin", "POST", f"{path}{DRY}", thing, impersonated=user)


def is_enforced(cluster: ApiServer) -> bool:
    return bool(ask(cluster, "bob", kai_pod("probe")).status_code == 403)


@pytest.mark.parametrize("command", [("validate",), ("admission", "manifest")], ids=" ".join)
def test_schedulers_that_share_queues_are_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    """With the settings to write."""
    queues = {"mode": "deny", "schedulers": {"kueue": {}, "volcano": {}, "kai": {}}}
    config, _ = write_settings(tmp_path / "webhook", queues, POLICY)
    done = subprocess.run(
        [sys.executable, "-m", "queuegate_server", *command, "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "kueue and volcano share queues of the policy" in said
    assert "set volcano: {below: root.volcano}, kai: {below: root.kai}, and move" in said


def test_names_of_other_schedulers_open_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    """With those settings, KAI cannot use the names of LocalQueues and namespaces."""
    with checked(
        cluster, tmp_path / "webhook", POLICY, is_enforced, schedulers={"kueue": {}, **SEPARATE}
    ):
        created(submit(cluster, "j", "training"))
        created(submit(cluster, "j", "team-open"))
        created(ask(cluster, "bob", kai_pod("research")))
        for user in ("bob", PIPELINE):
            for name in ("dev", "training", "team-open", "team-closed", "namespaces"):
                for scheduler, request in (("kai", kai_pod(name)), ("volcano", volcano_job(name))):
                    message = refusal(ask(cluster, user, request))
                    assert f"{user} may not submit to root.{scheduler}.{name} (set in " in message
        message = refusal(ask(cluster, "bob", volcano_job("research")))
        assert "bob may not submit to root.volcano.research (set in spec.queue)" in message


def test_an_administrator_of_a_cohort_gets_no_cluster_queue(
    cluster: ApiServer, tmp_path: Path
) -> None:
    """Nor the other way round."""
    with checked(
        cluster, tmp_path / "webhook", POLICY, is_enforced, schedulers={"kueue": {}, **SEPARATE}
    ):
        for user, cohort, cluster_queue in (("bob", "gpu", "cpu"), ("alice", "cpu", "gpu")):
            created(ask(cluster, user, kueue("LocalQueue", clusterQueue=cluster_queue)))
            created(ask(cluster, user, kueue("ClusterQueue", cohortName=cohort)))
            created(ask(cluster, user, kueue("Cohort", parentName=cohort)))
            message = refusal(ask(cluster, user, kueue("LocalQueue", clusterQueue=cohort)))
            assert f"{user} may not submit to root.clusterqueues.{cohort} (set in " in message
            for request in (
                kueue("ClusterQueue", cohortName=cluster_queue),
                kueue("Cohort", parentName=cluster_queue),
            ):
                message = refusal(ask(cluster, user, request))
                assert f"{user} may not administer root.cohorts.{cluster_queue} (set in" in message


def clique_set(**clique: Any) -> tuple[str, dict[str, Any]]:
    """Return where to create a PodCliqueSet with one clique, and the object."""
    group = "grove.io/v1alpha1"
    spec = {"roleName": "w", "replicas": 1, "podSpec": SPEC}
    template = {"cliques": [{"name": "w", "spec": spec, **clique}]}
    thing = {"apiVersion": group, "kind": "PodCliqueSet", "metadata": {"name": "g"}}
    path = f"/apis/{group}/namespaces/{NAMESPACE}/podcliquesets"
    return path, {**thing, "spec": {"replicas": 1, "template": template}}


def test_a_place_of_grove_hides_no_label(cluster: ApiServer, tmp_path: Path) -> None:
    """With `unqueued: deny` and a place that the object lacks, the labels of a clique count."""
    with checked(
        cluster, tmp_path / "webhook", POLICY, is_enforced, schedulers=GROVE, unqueued="deny"
    ):
        label = "kai.scheduler/queue"
        created(ask(cluster, "bob", clique_set(labels={label: "research"})))
        created(ask(cluster, "bob", clique_set(annotations={label: "research"})))
        for clique in (
            {"labels": {label: "closed"}},
            {"annotations": {label: "closed"}},
            {"labels": {"project": "closed"}},
        ):
            message = refusal(ask(cluster, "bob", clique_set(**clique)))
            assert (
                "bob may not submit to root.kai.closed (set in spec.template.cliques[0]." in message
            )
        assert "names no queue" in refusal(ask(cluster, "bob", clique_set()))
