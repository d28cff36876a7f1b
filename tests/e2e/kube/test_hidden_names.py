"""Names that operators read outside labels, annotations and fields, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.custom_resources import RESOURCES, define
from tests.e2e.kube.queue_checks import (
    KUEUE,
    NAMESPACE,
    SCHEDULERS,
    QueueWebhook,
    register,
    serving,
    wait_until_enforced,
    write_settings,
)
from tests.e2e.kube.reviews import created, make_namespaces, refusal
from tests.support.rows import rows

pytestmark = pytest.mark.timeout(300)
ARGO = "system:serviceaccount:argo:argo"
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
MERGE = "merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWebhook]:
    make_namespaces(cluster)
    groups = {
        *("apps.kruise.io", "argoproj.io", "clone.kubevirt.io", "flink.apache.org", "grove.io"),
        *("kubeflow.org", "snapshot.kubevirt.io", "sparkoperator.k8s.io", "workspace.devfile.io"),
    }
    define(cluster, [each for each in RESOURCES if each.group in groups])
    queues = {
        "mode": "deny",
        "groups": "kubernetes",
        "schedulers": SCHEDULERS,
        "controllers": [f"^{ARGO}$"],
    }
    config, ca = write_settings(tmp_path_factory.mktemp("queues"), queues)
    with serving(config, ca) as running:
        register(cluster, config, ca, running.address)
        wait_until_enforced(cluster)
        yield running


def stored(queue: str) -> dict[str, Any]:
    """Return the specification that Argo's controller keeps in the status, and executes."""
    template = {"name": "m", "metadata": {"labels": {KUEUE: queue}}, "container": {"image": "i"}}
    return {"entrypoint": "m", "templates": [template]}


@pytest.mark.parametrize(
    "status",
    [
        lambda queue: {"storedWorkflowTemplateSpec": stored(queue)},
        lambda queue: {"storedTemplates": {"namespaced/t/x": stored(queue)["templates"][0]}},
    ],
    ids=["specification", "template"],
)
def test_a_status_that_is_no_subresource(cluster: ApiServer, status: Any) -> None:
    """Everybody who may change a Workflow may change its status, from which Argo makes pods."""
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "by-status"},
        "spec": {"workflowTemplateRef": {"name": "t"}},
    }
    created(cluster.ask("bob", "POST", WORKFLOWS, workflow))
    one = f"{WORKFLOWS}/by-status"

    def patched(queue: str, user: str = "bob") -> Any:
        change = {"status": status(queue)}
        return cluster.ask("admin", "PATCH", one, change, MERGE, impersonated=user)

    try:
        assert "bob may not submit to root.namespaces.dev.team-closed" in refusal(
            patched("team-closed")
        )
        created(patched("team-open"))
        created(patched("team-closed", ARGO))
        phase = {"status": {"phase": "Running"}}
        created(cluster.ask("bob", "PATCH", one, phase, MERGE))
    finally:
        created(cluster.ask("bob", "DELETE", one))


LONG = {"yunikorn.apache.org/queue": "root.open"}
BOTH = {"labels": {"queue": "root.closed"}, "annotations": LONG}
"""YuniKorn reads the annotation, if it is in the pod."""
LABELS = {"labels": {"queue": "root.closed", **LONG}}
PODS: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}]}


@rows
def test_a_key_that_is_overridden_outside_a_pod(cluster: ApiServer, thing: dict[str, Any]) -> None:
    """An operator may remove the other key, so that YuniKorn reads this one."""
    group, kind = thing["apiVersion"], thing["kind"]
    path = f"/apis/{group}/namespaces/{NAMESPACE}/{kind.lower()}s?dryRun=All"
    answer = cluster.ask("bob", "POST", path, thing)
    assert "bob may not submit to root.closed" in refusal(answer)


@pytest.mark.parametrize("metadata", [BOTH, LABELS])
def test_a_key_that_is_overridden_in_a_pod(cluster: ApiServer, metadata: dict[str, Any]) -> None:
    """YuniKorn reads the other key."""
    pod = {"metadata": {"name": "p", **metadata}, "spec": PODS}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    created(cluster.ask("bob", "POST", path, pod))
    try:
        removed = {"metadata": {name: {"yunikorn.apache.org/queue": None} for name in metadata}}
        answer = cluster.ask("bob", "PATCH", f"{path}/p", removed, MERGE)
        assert "bob may not submit to root.closed" in refusal(answer)
    finally:
        created(cluster.ask("bob", "DELETE", f"{path}/p"))


def workflow(text: str) -> dict[str, Any]:
    """Return a Workflow whose pod has a label."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "w"},
        "spec": {"podMetadata": {"labels": {KUEUE: text}}},
    }


def dry_run(cluster: ApiServer, thing: dict[str, Any]) -> Any:
    plural = f"{thing['kind'].lower()}s"
    path = f"/apis/{thing['apiVersion']}/namespaces/{NAMESPACE}/{plural}?dryRun=All"
    return cluster.ask("bob", "POST", path, thing)


@rows
def test_names_that_are_known_later(cluster: ApiServer, thing: dict[str, Any], reason: str) -> None:
    assert reason in refusal(dry_run(cluster, thing))


@rows
def test_what_hides_no_name(cluster: ApiServer, thing: dict[str, Any]) -> None:
    created(dry_run(cluster, thing))


@pytest.mark.parametrize("value", [0, False], ids=str)
def test_values_that_are_no_text_are_checked(cluster: ApiServer, value: object) -> None:
    """The API server does not check the types in a resource that keeps unknown members."""
    thing = workflow("x")
    thing["spec"]["podMetadata"]["labels"] = {KUEUE: value}
    expected = f"bob may not submit to root.namespaces.dev.{str(value).lower()}"
    assert expected in refusal(dry_run(cluster, thing))
