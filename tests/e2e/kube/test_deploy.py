"""What deploy/ holds, applied to a real API server: it takes every field, and refuses none."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kube.cluster import ApiServer, program
from tests.e2e.kube.installed_base import Kubectl, a_checkout, changed
from tests.support.go_toolchain import BUILD_SECONDS
from tests.support.manifests import Manifest, kustomized, loaded, of_kind

pytestmark = pytest.mark.timeout(BUILD_SECONDS)
CHART = "deploy/helm/queuegate"
SCHEDULER = Path("tests/e2e/deploy/yunikorn-scheduler.yaml")
CLUSTER_WIDE = {
    *("ClusterRole", "ClusterRoleBinding", "Namespace"),
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
}


def place(manifest: Manifest, namespace: str) -> str:
    """Return the path of the objects of a kind."""
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    within = "" if manifest["kind"] in CLUSTER_WIDE else f"/namespaces/{namespace}"
    return f"{root}{within}/{plural}"


def apply(cluster: ApiServer, manifest: Manifest, namespace: str) -> Manifest:
    """Apply an object, as `kubectl apply --server-side` does; unknown fields are errors."""
    path = f"{place(manifest, namespace)}/{manifest['metadata']['name']}"
    query = "fieldManager=test&fieldValidation=Strict"
    answer = cluster.ask("admin", "PATCH", f"{path}?{query}", manifest, "apply-patch+yaml")
    assert answer.status_code in {200, 201}, answer.text
    made: Manifest = answer.json()
    return made


def make_namespace(cluster: ApiServer, name: str, **labels: str) -> str:
    metadata = {
        "name": name,
        "labels": {f"pod-security.kubernetes.io/{key}": value for key, value in labels.items()},
    }
    apply(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, "")
    return name


def remove(cluster: ApiServer, manifests: list[Manifest]) -> None:
    """Remove webhooks: nobody answers for them here."""
    for each in manifests:
        if each["kind"].endswith("WebhookConfiguration"):
            path = f"{place(each, '')}/{each['metadata']['name']}"
            assert cluster.ask("admin", "DELETE", path).status_code == 200


@pytest.mark.parametrize("folder", ["fleet", "admission/own-ca"])
def test_the_manifests(cluster: ApiServer, kustomize: Path, folder: str) -> None:
    """They apply where no Prometheus operator is, and make pods of the restricted profile."""
    make_namespace(cluster, "yunikorn")
    manifests = kustomized(kustomize, Path("deploy") / folder)
    for each in manifests:
        apply(cluster, each, "yunikorn")
    remove(cluster, manifests)
    restricted = make_namespace(cluster, "restricted", enforce="restricted")
    for deployment in of_kind(manifests, "Deployment"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": deployment["metadata"]["name"]},
            "spec": deployment["spec"]["template"]["spec"],
        }
        apply(cluster, pod, restricted)


def test_a_second_apply_changes_nothing(cluster: ApiServer, tmp_path: Path) -> None:
    """Fleet, Valkey and webhook; `test_queue_bases.py` has the same for `deploy/queues`."""
    kubectl = program("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here: `make kube-tools` builds it (Go, 15 min)")
    overlay = {
        "namespace": make_namespace(cluster, "twice"),
        "resources": ["deploy/fleet", "deploy/admission/own-ca"],
        "components": ["deploy/valkey", "deploy/admission/queues"],
    }
    a_checkout(tmp_path)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    run = Kubectl(kubectl, tmp_path, cluster).run
    versions = ("get", "-k", str(tmp_path), "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    # Other tests create the same cluster-wide objects, without kubectl's annotation.
    run("delete", "-k", str(tmp_path), "--ignore-not-found")
    assert "deployment.apps/queuegate created\n" in run("apply", "-k", str(tmp_path))
    before = run(*versions)
    again = run("apply", "-k", str(tmp_path))
    after = run(*versions)
    run("delete", "-k", str(tmp_path), "--wait=false")
    assert changed(again) == []
    assert before == after


def test_the_sidecar_as_a_patch(cluster: ApiServer, kustomize: Path, tmp_path: Path) -> None:
    """`kubectl patch` of a running Deployment does what the component does."""
    scheduler = yaml.safe_load(SCHEDULER.read_text(encoding="utf-8"))
    shutil.copytree("deploy/sidecar", tmp_path / "sidecar")
    shutil.copy(SCHEDULER, tmp_path / "scheduler.yaml")
    (tmp_path / "kustomization.yaml").write_text(
        "resources: [scheduler.yaml]\ncomponents: [sidecar]\n"
    )
    (rendered,) = kustomized(kustomize, tmp_path)
    by_component = apply(cluster, rendered, make_namespace(cluster, "component"))
    namespace = make_namespace(cluster, "patched")
    apply(cluster, scheduler, namespace)
    path = f"{place(scheduler, namespace)}/yunikorn-scheduler"
    patch = yaml.safe_load(Path("deploy/sidecar/scheduler.yaml").read_text(encoding="utf-8"))
    for _ in range(2):  # a second time it changes nothing
        answer = cluster.ask("admin", "PATCH", path, patch, "strategic-merge-patch+json")
        assert answer.status_code == 200, answer.text
    patched = answer.json()
    assert patched["spec"] == by_component["spec"]
    assert patched["metadata"]["generation"] == 2


def test_the_chart(cluster: ApiServer, helm: Path, tmp_path: Path) -> None:
    """Installed, upgraded with other settings, which makes new pods, and uninstalled."""
    config = tmp_path / "kubeconfig"
    config.write_text(cluster.kubeconfig())

    def run(*arguments: str, values: dict[str, Any] | None = None) -> str:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values or {}))
        given = ("--values", str(file)) if values is not None else ()
        done = subprocess.run(
            [str(helm), *arguments, *given, "--namespace", "charted"],
            env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(config)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def deployment(name: str) -> Manifest:
        path = f"/apis/apps/v1/namespaces/charted/deployments/{name}"
        answer = cluster.ask("admin", "GET", path)
        assert answer.status_code == 200, answer.text
        found: Manifest = answer.json()
        return found

    webhook = {"enabled": True}
    notes = run("install", "charted", CHART, "--create-namespace", values={"webhook": webhook})
    assert "kubectl rollout status deployment/charted-queuegate " in notes
    assert deployment("charted-queuegate-admission")["spec"]["replicas"] == 3
    before = deployment("charted-queuegate")["metadata"]["generation"]
    assert "queuegate.yaml" in run("get", "manifest", "charted")
    changed = {"webhook": webhook, "server": {"settings": {"log": {"level": "debug"}}}}
    run("upgrade", "charted", CHART, values=changed)
    assert deployment("charted-queuegate")["metadata"]["generation"] == before + 1
    webhooks = loaded(run("get", "manifest", "charted"))
    assert len(of_kind(webhooks, "ValidatingWebhookConfiguration")) == 1
    run("uninstall", "charted")
    gone = cluster.ask("admin", "GET", "/apis/apps/v1/namespaces/charted/deployments")
    assert gone.json()["items"] == []
