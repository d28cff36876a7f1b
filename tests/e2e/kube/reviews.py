"""Webhooks registered with a real API server, and objects that it asks them about."""

import base64
import json
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests.e2e.kube.cluster import ApiServer
from tests.support.eventually import eventually
from tests.support.servers.webhook import Webhook

KEY = "yunikorn.apache.org/user.info"
PODS = "/api/v1/namespaces/dev/pods"
SPEC = {"containers": [{"name": "c", "image": "i"}]}


def make_namespaces(cluster: ApiServer) -> None:
    for name in ("dev", "yunikorn"):
        created(cluster.ask("admin", "POST", "/api/v1/namespaces", {"metadata": {"name": name}}))


def register(cluster: ApiServer, webhook: Webhook) -> None:
    """Register what the manifests say; only the address is another one."""
    bundle = base64.b64encode(webhook.ca.cert_pem.bytes()).decode()
    file = Path("deploy/admission/base/webhooks.yaml")
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
        for each in document["webhooks"]:
            path = each["clientConfig"]["service"]["path"]
            each["clientConfig"] = {"url": f"https://{webhook.address}{path}", "caBundle": bundle}
        plural = document["kind"].lower() + "s"
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
        created(cluster.ask("admin", "POST", path, document))

    def works() -> bool:
        answer = cluster.ask("bob", "POST", f"{PODS}?dryRun=All", pod("probe"))
        return KEY in answer.json()["metadata"].get("annotations", {})

    eventually(works, True)
    answer = cluster.ask("bob", "POST", f"{PODS}?dryRun=All", pod("probe", {KEY: "{}"}))
    assert answer.status_code == 403


def created(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code in {200, 201}, answer.text
    made: dict[str, Any] = answer.json()
    return made


def refusal(answer: httpx2.Response) -> str:
    assert answer.status_code == 403, answer.text
    message: str = answer.json()["message"]
    return message


def pod(name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


def recorded(made: dict[str, Any]) -> str:
    """The name in the annotation of a pod or workload."""
    node: Any = made
    if made["kind"] == "CronJob":
        node = node["spec"]["jobTemplate"]
    if made["kind"] != "Pod":
        node = node["spec"]["template"]
    name: str = json.loads(node["metadata"]["annotations"][KEY])["user"]
    return name
