"""Pods that a real API server makes when only queuegate's webhook is there."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import PODS, created, make_namespaces, pod, recorded, register
from tests.support.rows import rows
from tests.support.servers.webhook import Webhook, running_webhook

pytestmark = pytest.mark.timeout(300)
IGNORED = "yunikorn.apache.org/ignore-application"


@pytest.fixture(scope="module")
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    folder = tmp_path_factory.mktemp("webhook")
    settings = folder / "queuegate.yaml"
    settings.write_text(json.dumps({"admission": {"yunikorn": {"enabled": True}}}))
    with running_webhook(folder, "--config", str(settings)) as running:
        running.configure({"admissionController.filtering.noLabelNamespaces": "^plain$"})
        make_namespaces(cluster)
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "plain"}}))
        register(cluster, running)
        yield running


@pytest.mark.usefixtures("webhook")
@rows
def test_pods_go_to_yunikorn(
    cluster: ApiServer, labels: dict[str, str] | None, application_id: dict[str, str]
) -> None:
    asked = pod(f"p{len(labels or ())}-{len(application_id)}", {"other": "x"})
    if labels is not None:
        asked["metadata"]["labels"] = labels
    made = created(cluster.ask("bob", "POST", f"{PODS}?dryRun=All", asked))
    assert made["spec"]["schedulerName"] == "yunikorn"
    assert made["metadata"]["labels"] == application_id
    assert made["metadata"]["annotations"]["other"] == "x"
    assert recorded(made) == "bob"


@pytest.mark.usefixtures("webhook")
def test_a_namespace_without_labels(cluster: ApiServer) -> None:
    made = created(cluster.ask("bob", "POST", "/api/v1/namespaces/plain/pods", pod("p")))
    assert made["spec"]["schedulerName"] == "yunikorn"
    assert "labels" not in made["metadata"]
    assert made["metadata"]["annotations"][IGNORED] == "true"
    assert recorded(made) == "bob"


@pytest.mark.usefixtures("webhook")
def test_updates_and_yunikorns_own_pods_stay_as_they_are(cluster: ApiServer) -> None:
    asked = pod("own")
    asked["metadata"]["labels"] = {"app": "yunikorn"}
    own = created(cluster.ask("admin", "POST", PODS, asked))
    assert own["spec"]["schedulerName"] == "default-scheduler"
    patch = [{"op": "add", "path": "/metadata/labels/team", "value": "a"}]
    updated = created(cluster.ask("admin", "PATCH", f"{PODS}/own", patch))
    assert updated["metadata"]["labels"] == {"app": "yunikorn", "team": "a"}
