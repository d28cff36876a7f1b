"""The endpoint /authorize over HTTPS, with and without client certificates."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme

from tests.integration.admission.test_with_policy import SETTINGS, write_settings
from tests.support.rows import table
from tests.support.servers.queuegate_server import run
from tests.support.servers.webhook import Webhook, running_webhook, write_certificate

ADMISSIONS: tuple[dict[str, Any], ...] = (
    {"authorize": {}},
    {"queues": {**SETTINGS, "mode": "off"}},
)
"""Settings with which the endpoint is served."""

QUESTION = table(__file__, "QUESTION")


def asked(webhook: Webhook, certificate: trustme.LeafCert | None) -> httpx2.Response:
    context = webhook.client_context()
    if certificate is not None:
        certificate.configure_cert(context)
    with httpx2.Client(verify=context, timeout=60) as client:
        return client.post(f"https://{webhook.address}/authorize?timeout=3s", json=QUESTION)


def counted(webhook: Webhook, outcome: str) -> float:
    labels = f'endpoint="authorize",outcome="{outcome}"'
    return webhook.metric("queuegate_admission_reviews_total", labels)


@pytest.mark.parametrize("admission", ADMISSIONS, ids=",".join)
def test_verified_callers_are_answered(tmp_path: Path, admission: dict[str, Any]) -> None:
    clients = trustme.CA()
    clients.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    records = tmp_path / "audit.jsonl"
    settings = write_settings(
        tmp_path, admission=admission, audit={"path": str(records), "records": "all"}
    )
    ca_file = f"admission.tls.client_ca_file={tmp_path / 'clients.pem'}"
    arguments = ("--config", str(settings), "--set", ca_file)
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
        labels = 'mode="off",outcome="allowed",scheduler="authorize"'
        assert webhook.metric("queuegate_admission_queue_decisions_total", labels) == 1
    (record,) = map(json.loads, records.read_text().splitlines())
    assert (record["method"], record["user"]) == ("SubjectAccessReview", "bob")


def test_without_client_certificates_nobody_is_answered(tmp_path: Path) -> None:
    settings = write_settings(tmp_path, {"mode": "off"})
    with running_webhook(tmp_path, "--config", str(settings)) as webhook:
        answer = asked(webhook, None)
        assert answer.status_code == 403
        assert "set admission.tls.client_ca_file" in answer.text
        assert counted(webhook, "unverified") == 1


def test_without_client_certificates_the_answers_cannot_be_switched_on(tmp_path: Path) -> None:
    write_certificate(trustme.CA(), tmp_path)
    tls = {
        "certificate_file": str(tmp_path / "tls.crt"),
        "key_file": str(tmp_path / "tls.key"),
    }
    settings = write_settings(tmp_path, admission={"authorize": {}, "tls": tls})
    failed = run("admission", "--config", str(settings))
    assert failed.returncode == 2
    assert "authorize needs tls.client_ca_file" in failed.stderr
