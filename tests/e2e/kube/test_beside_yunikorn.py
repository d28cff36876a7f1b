"""The webhook beside YuniKorn's admission controller: docs/how-to/webhook-beside-yunikorn.md.

A second webhook of ours stands in for that controller, which follows the same rules, under its
names, rules and failure policy.
"""

import base64
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.kube.cluster import ApiServer
from tests.e2e.kube.reviews import (
    KEY,
    PODS,
    created,
    make_namespaces,
    pod,
    recorded,
    refusal,
    register,
)
from tests.support.eventually import eventually
from tests.support.servers.webhook import Webhook, running_webhook

pytestmark = pytest.mark.timeout(300)
BYPASS = "admissionController.accessControl.bypassAuth"


@pytest.fixture(scope="module")
def ours(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with running_webhook(tmp_path_factory.mktemp("ours")) as running:
        make_namespaces(cluster)
        register(cluster, running)
        yield running


@pytest.fixture(scope="module")
def theirs(
    cluster: ApiServer, ours: Webhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Webhook]:
    with running_webhook(tmp_path_factory.mktemp("theirs")) as running:
        client: dict[str, Any] = {
            "url": f"https://{running.address}/mutate",
            "caBundle": base64.b64encode(running.ca.cert_pem.bytes()).decode(),
        }
        rule = {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": ["", "apps", "batch"],
            "apiVersions": ["v1"],
            "resources": ["pods", "deployments"],
        }
        webhook = {
            "name": "admission-webhook.yunikorn.mutate-pods",
            "clientConfig": client,
            "rules": [rule],
            "failurePolicy": "Ignore",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        configuration = {
            "metadata": {"name": "yunikorn-admission-controller-mutations"},
            "webhooks": [webhook],
        }
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        made = created(cluster.ask("admin", "POST", path, configuration))
        assert made["webhooks"][0]["reinvocationPolicy"] == "Never"
        eventually(lambda: attempt(cluster).status_code, 403)
        yield running


def attempt(cluster: ApiServer, annotations: dict[str, str] | None = None) -> Any:
    return cluster.ask("bob", "POST", f"{PODS}?dryRun=All", pod("attempt", annotations))


def test_by_default_they_refuse_each_other(cluster: ApiServer, theirs: Webhook) -> None:
    """Ours is asked first, because its name comes first."""
    theirs.configure({})
    message = refusal(attempt(cluster))
    assert message.startswith('admission webhook "admission-webhook.yunikorn.mutate-pods" denied')
    assert "user bob with groups [dev,system:authenticated] is not allowed to set user" in message


def test_with_settings_of_its_own_ours_annotates(cluster: ApiServer, theirs: Webhook) -> None:
    theirs.configure({BYPASS: "true"})
    assert recorded(created(attempt(cluster))) == "bob"
    message = refusal(attempt(cluster, {KEY: '{"user":"alice"}'}))
    assert message.startswith('admission webhook "mutate.queuegate.yunikorn.apache.org" denied')


def test_with_shared_settings_anybody_could_write_any_name(
    cluster: ApiServer, ours: Webhook, theirs: Webhook
) -> None:
    theirs.configure({BYPASS: "true"})
    ours.configure({BYPASS: "true"})
    try:
        assert recorded(created(attempt(cluster, {KEY: '{"user":"alice"}'}))) == "alice"
    finally:
        ours.configure({})


def test_outages(cluster: ApiServer, ours: Webhook, theirs: Webhook) -> None:
    """Without their webhook ours keeps working; without ours nothing is created."""
    theirs.configure({BYPASS: "true"})
    for stopped, status in ((theirs, 201), (ours, 500)):
        stopped.server.process.send_signal(signal.SIGSTOP)
        try:
            assert attempt(cluster).status_code == status
        finally:
            stopped.server.process.send_signal(signal.SIGCONT)
