"""The webhook behind a real kube-apiserver, registered with the manifests of deploy/."""

import json
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
from tests.e2e.kube.scenarios import play, scenarios
from tests.support.rows import table
from tests.support.servers.webhook import Webhook, running_webhook

pytestmark = pytest.mark.timeout(300)
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
LABEL = "yunikorn.apache.org/username"
WORKLOADS: dict[str, tuple[str, str, dict[str, Any]]] = table(__file__, "WORKLOADS")


@pytest.fixture(scope="module")
def webhook(cluster: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with running_webhook(tmp_path_factory.mktemp("webhook")) as running:
        running.configure({"admissionController.accessControl.externalUsers": "^portal$"})
        make_namespaces(cluster)
        register(cluster, running)
        yield running


def test_pods(cluster: ApiServer, webhook: Webhook) -> None:
    made = created(cluster.ask("bob", "POST", PODS, pod("mine", {"other": "x"})))
    value = made["metadata"]["annotations"]
    assert json.loads(value[KEY]) == {"user": "bob", "groups": ["dev", "system:authenticated"]}
    assert value["other"] == "x"
    forged = pod("forged", {KEY: '{"user":"alice"}'})
    message = refusal(cluster.ask("bob", "POST", PODS, forged))
    assert "user bob with groups [dev,system:authenticated] is not allowed to set" in message
    assert recorded(created(cluster.ask("portal", "POST", PODS, forged))) == "alice"
    change = [{"op": "replace", "path": "/metadata/annotations", "value": {KEY: '{"user":"eve"}'}}]
    message = refusal(cluster.ask("bob", "PATCH", f"{PODS}/mine", change))
    assert "user info annotation change is not allowed" in message
    gone = [{"op": "remove", "path": "/metadata/annotations"}]
    assert "not allowed" in refusal(cluster.ask("portal", "PATCH", f"{PODS}/mine", gone))
    label = [{"op": "add", "path": "/metadata/labels", "value": {"app": "yunikorn"}}]
    assert recorded(created(cluster.ask("bob", "PATCH", f"{PODS}/mine", label))) == "bob"
    assert created(cluster.ask("bob", "DELETE", f"{PODS}/mine"))


@pytest.mark.parametrize("kind", WORKLOADS)
def test_workloads(cluster: ApiServer, webhook: Webhook, kind: str) -> None:
    version, plural, spec = WORKLOADS[kind]
    path = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/dev/{plural}"
    thing = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    made = created(cluster.ask("bob", "POST", path, thing))
    assert recorded(made) == "bob"
    where = "/spec/jobTemplate/spec" if kind == "CronJob" else "/spec"
    change = [
        {
            "op": "replace",
            "path": f"{where}/template/metadata/annotations",
            "value": {KEY: '{"user":"alice"}'},
        }
    ]
    answer = cluster.ask("bob", "PATCH", f"{path}/w", change)
    if kind != "Job":  # whose template nobody can change
        assert "user info annotation change is not allowed" in refusal(answer)
        # Rewritten without the annotation, the object gets it back.
        assert recorded(created(cluster.ask("bob", "PUT", f"{path}/w", thing))) == "bob"
    assert answer.status_code in {403, 422}


def test_objects_of_a_controller_keep_their_owner(cluster: ApiServer, webhook: Webhook) -> None:
    made = created(cluster.ask(CONTROLLER, "POST", PODS, pod("child", {KEY: '{"user":"bob"}'})))
    assert recorded(made) == "bob"


def test_configuration(cluster: ApiServer, webhook: Webhook) -> None:
    path = "/api/v1/namespaces/yunikorn/configmaps"

    def config_map(text: str, name: str = "yunikorn-configs") -> dict[str, Any]:
        return {"metadata": {"name": name}, "data": {"queues.yaml": text}}

    message = refusal(cluster.ask("admin", "POST", path, config_map("partitons: []")))
    assert "queues.yaml:1:1: error" in message
    good = "partitions:\n  - name: default\n    queues:\n      - name: root\n"
    created(cluster.ask("admin", "POST", path, config_map(good)))
    bad = config_map(good + "        submitacl: a b c\n")
    assert "queues.yaml:5:" in refusal(cluster.ask("admin", "PUT", f"{path}/yunikorn-configs", bad))
    created(cluster.ask("admin", "POST", path, config_map("anything", "other")))


def test_an_outage_creates_nothing(cluster: ApiServer, webhook: Webhook) -> None:
    """Fail closed, also where the webhook hangs; the namespaces that are left out go on."""
    webhook.server.process.send_signal(signal.SIGSTOP)
    try:
        answer = cluster.ask("bob", "POST", PODS, pod("late"))
        system = PODS.replace("dev", "kube-system")
        created(cluster.ask("admin", "POST", system, pod("system")))
    finally:
        webhook.server.process.send_signal(signal.SIGCONT)
    assert answer.status_code == 500
    assert "failed calling webhook" in answer.json()["message"]
    created(cluster.ask("bob", "POST", PODS, pod("later")))


@pytest.mark.usefixtures("webhook")
@scenarios("annotation_scenarios.yaml")
def test_no_way_around(cluster: ApiServer, steps: list[dict[str, Any]]) -> None:
    play(cluster, steps)


LEFT_OUT_PODS = PODS.replace("dev", "left-out")


def test_the_label_names_nobody(cluster: ApiServer, webhook: Webhook) -> None:
    """In a namespace that the filters leave out, by each way that writes labels."""
    bypass = "admissionController.filtering.bypassNamespaces"
    webhook.configure({**webhook.configs.values, bypass: "^left-out$"})  # type: ignore[dict-item]
    created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": "left-out"}}))
    named = pod("named")
    named["metadata"]["labels"] = {LABEL: "eve"}
    message = f"is not allowed to set the label {LABEL} to another user"
    assert message in refusal(cluster.ask("bob", "POST", LEFT_OUT_PODS, named))
    created(cluster.ask("bob", "POST", LEFT_OUT_PODS, pod("plain")))
    change = [{"op": "add", "path": "/metadata/labels", "value": {LABEL: "eve"}}]
    for path in (f"{LEFT_OUT_PODS}/plain", f"{LEFT_OUT_PODS}/plain/status"):
        assert message in refusal(cluster.ask("bob", "PATCH", path, change))
    binding: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "plain", "labels": {LABEL: "eve"}},
        "target": {"kind": "Node", "name": "n"},
    }
    answer = cluster.ask("admin", "POST", f"{LEFT_OUT_PODS}/plain/binding", binding)
    assert "user label change is not allowed" in refusal(answer)
    created(cluster.ask("admin", "DELETE", f"{LEFT_OUT_PODS}/plain", {"gracePeriodSeconds": 0}))


def test_updates_that_leave_the_annotation_alone_need_no_webhook(
    cluster: ApiServer, webhook: Webhook
) -> None:
    """The kubelet's status updates go on while the webhook hangs."""
    created(cluster.ask("bob", "POST", PODS, pod("running")))
    change = [{"op": "add", "path": "/status/message", "value": "hello"}]
    webhook.server.process.send_signal(signal.SIGSTOP)
    try:
        answer = cluster.ask("admin", "PATCH", f"{PODS}/running/status", change)
    finally:
        webhook.server.process.send_signal(signal.SIGCONT)
    assert created(answer)["status"]["message"] == "hello"
