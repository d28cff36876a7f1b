"""`kubectl auth can-i` about queues, with an API server that asks the webhook."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer, program, running_cluster
from tests.e2e.kube.queue_checks import QueueWebhook, serving, write_settings
from tests.support.documents import blocks
from tests.support.eventually import eventually
from tests.support.rows import rows

PAGE: Final = Path("docs/how-to/kubectl-auth-can-i.md")
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueWebhook]:
    folder = tmp_path_factory.mktemp("webhook")
    config, ca = write_settings(folder, {})
    settings = yaml.safe_load(config.read_text())
    ca.cert_pem.write_to_path(str(folder / "ca.crt"))
    tls = settings["admission"]["tls"] | {"client_ca_file": str(folder / "ca.crt")}
    settings["admission"] = {"authorize": {"groups": "kubernetes"}, "tls": tls}
    config.write_text(yaml.safe_dump(settings))
    with serving(config, ca) as webhook:
        yield webhook


@pytest.fixture(scope="module", params=["flags", "file"])
def authorizing_cluster(
    request: pytest.FixtureRequest, webhook: QueueWebhook, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    etcd, kube_apiserver = program("etcd"), program("kube-apiserver")
    if etcd is None or kube_apiserver is None or program("kubectl") is None:
        pytest.skip("no API server and kubectl here: `make kube-tools` builds them (Go, 15 min)")
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "flags":
        options = {
            "authorization-mode": "RBAC,Webhook",
            "authorization-webhook-config-file": write_kubeconfig(folder, webhook),
            "authorization-webhook-version": "v1",
        }
    else:
        options = {
            "authorization-mode": None,
            "authorization-config": write_authorizers(folder, write_kubeconfig(folder, webhook)),
        }
    with running_cluster(folder, etcd, kube_apiserver, options) as api:
        yield api


def page_samples() -> list[Any]:
    """Return the samples of settings, kubeconfig and authorizers on the page."""
    return [yaml.safe_load(text) for text in blocks(PAGE.read_text(encoding="utf-8"), "yaml")]


def write_authorizers(folder: Path, kubeconfig: Path) -> Path:
    """Write the page's list of authorizers, with the path of another kubeconfig file."""
    authorizers = page_samples()[2]
    webhook = authorizers["authorizers"][-1]["webhook"]
    assert webhook["connectionInfo"]["kubeConfigFile"].endswith("/queuegate-authorize.yaml")
    webhook["connectionInfo"]["kubeConfigFile"] = str(kubeconfig)
    file = folder / "authorization.yaml"
    file.write_text(yaml.safe_dump(authorizers))
    return file


def write_kubeconfig(folder: Path, webhook: QueueWebhook) -> Path:
    """Write the page's file with which the API server connects to the webhook."""
    issued = webhook.ca.issue_cert("kube-apiserver")
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
    content = page_samples()[1]
    content["clusters"][0]["cluster"] = {
        "server": f"https://{webhook.address}/authorize",
        "certificate-authority": str(webhook.config.parent / "ca.crt"),
    }
    certificate = str(folder / "client.pem")
    content["users"][0]["user"] = {"client-certificate": certificate, "client-key": certificate}
    file = folder / "queuegate-kubeconfig.yaml"
    file.write_text(json.dumps(content))
    return file


def can_i(api: ApiServer, folder: Path, user: str, *arguments: str) -> tuple[str, str]:
    """Return the answer of kubectl, and its warnings."""
    kubeconfig = folder / f"{user}.json"
    kubeconfig.write_text(api.kubeconfig(user))
    kubectl = program("kubectl")
    assert kubectl is not None
    # A fresh cache of discovered resources, because a test adds one.
    command = [kubectl, f"--kubeconfig={kubeconfig}", f"--cache-dir={folder / 'cache'}"]
    done = subprocess.run(
        [*command, "auth", "can-i", *arguments], capture_output=True, text=True, check=False
    )
    answer = done.stdout.strip()
    assert done.returncode == (0 if answer == "yes" else 1), done.stderr
    return answer, done.stderr


@rows
def test_kubectl_answers(
    authorizing_cluster: ApiServer,
    tmp_path: Path,
    user: str,
    verb: str,
    resource: str,
    answer: str,
) -> None:
    answered, _ = can_i(authorizing_cluster, tmp_path, user, verb, resource)
    assert answered.partition(" ")[0] == answer
    if answer == "no" and "queuegate" in resource:
        name = resource.partition("/")[2]
        assert f"queuegate: {user} may not submit to {name}: no ACL" in answered


def test_a_resource_that_the_api_server_serves(
    authorizing_cluster: ApiServer, tmp_path: Path
) -> None:
    """kubectl then states the group, instead of a resource with a dot."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "queues.queuegate.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "queuegate.io",
            "scope": "Cluster",
            "names": {"plural": "queues", "kind": "Queue"},
            "versions": [version],
        },
    }
    created = authorizing_cluster.ask("admin", "POST", CRDS, definition)
    assert created.status_code == 201, created.text
    served = "/apis/queuegate.io/v1/queues"
    eventually(lambda: authorizing_cluster.ask("admin", "GET", served).status_code, 200)
    open_queue = ("submit", "queues.queuegate.io/root.open")

    def answer() -> tuple[str, bool]:
        answered, warnings = can_i(authorizing_cluster, tmp_path, "bob", *open_queue)
        return answered, "doesn't have a resource type" in warnings

    eventually(answer, ("yes", False))
    closed = ("submit", "queues.queuegate.io/root.closed")
    assert can_i(authorizing_cluster, tmp_path, "bob", *closed)[0].startswith("no")
    subresource = ("submit", "queues.queuegate.io", "--subresource=root.open")
    assert can_i(authorizing_cluster, tmp_path, "bob", *subresource)[0] == "yes"
