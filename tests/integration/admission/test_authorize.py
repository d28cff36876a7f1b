"""The endpoint /authorize over HTTPS, with and without client certificates."""

import json
from pathlib import Path

import httpx2
import trustme

from tests.integration.admission.test_with_policy import write_settings
from tests.support.servers.webhook import Webhook, running_webhook

QUESTION = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "user": "bob",
        "resourceAttributes": {
            "group": "queuegate.io",
            "resource": "queues",
            "verb": "submit",
            "name": "root.prod",
        },
    },
}


def asked(webhook: Webhook, certificate: trustme.LeafCert | None) -> httpx2.Response:
    context = webhook.client_context()
    if certificate is not None:
        certificate.configure_cert(context)
    with httpx2.Client(verify=context, timeout=60) as client:
        return client.post(f"https://{webhook.address}/authorize?timeout=3s", json=QUESTION)


def counted(webhook: Webhook, outcome: str) -> float:
    labels = f'endpoint="authorize",outcome="{outcome}"'
    return webhook.metric("queuegate_admission_reviews_total", labels)


def test_verified_callers_are_answered(tmp_path: Path) -> None:
    clients = trustme.CA()
    clients.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    records = tmp_path / "audit.jsonl"
    settings = write_settings(
        tmp_path, {"mode": "off"}, audit={"path": str(records), "records": "all"}
    )
    arguments = ("--config", str(settings), "--client-ca-file", str(tmp_path / "clients.pem"))
    with running_webhook(tmp_path, *arguments) as webhook:
        answer = asked(webhook, clients.issue_cert("kube-apiserver"))
        assert answer.status_code == 200, answer.text
        status = {
            "allowed": True,
            "denied": False,
            "reason": "queuegate: bob may submit to root.prod",
        }
        assert answer.json()["status"] == status
        assert counted(webhook, "allowed") == 1
    (record,) = map(json.loads, records.read_text().splitlines())
    assert (record["method"], record["user"]) == ("SubjectAccessReview", "bob")


def test_without_client_certificates_nobody_is_answered(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, {"mode": "off"})
    with running_webhook(tmp_path, "--config", str(settings)) as webhook:
        answer = asked(webhook, None)
        assert answer.status_code == 403
        assert "set admission.tls.client_ca_file" in answer.text
        assert counted(webhook, "unverified") == 1
