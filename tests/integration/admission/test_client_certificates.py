"""API servers that must present a certificate, and probes that need none."""

import ssl
from pathlib import Path

import httpx2
import pytest
import trustme

from tests.integration.admission.test_bounds import review
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.webhook import Webhook, running_webhook

API_SERVER = "kube-apiserver.example"
NAMES = f"[dns:{API_SERVER.upper()}, cn:kube-apiserver]"
MATCHING = ("--set", f"admission.tls.client_names={NAMES}")


def presenting(webhook: Webhook, certificate: trustme.LeafCert | None) -> ssl.SSLContext:
    context = webhook.client_context()
    if certificate is not None:
        certificate.configure_cert(context)
    return context


def outcome(webhook: Webhook, certificate: trustme.LeafCert | None) -> int | str:
    """The status of an answer over a new connection, or that there is none."""
    context = presenting(webhook, certificate)
    try:
        with httpx2.Client(verify=context, timeout=60) as client:
            answer = client.post(f"https://{webhook.address}/mutate", json=review())
    except httpx2.HTTPError:
        return "no answer"
    if answer.status_code == 403:
        assert answer.text == (
            "the client's certificate has no name listed in admission.tls.client_names\n"
        )
    return answer.status_code


@pytest.mark.parametrize(
    ("arguments", "other_name"), [((), 200), (MATCHING, 403)], ids=["any name", "names"]
)
def test_only_certificates_of_the_authority(
    tmp_path: Path, arguments: tuple[str, ...], other_name: int
) -> None:
    clients, strangers = trustme.CA(), trustme.CA()
    clients.cert_pem.write_to_path(str(tmp_path / "clients.pem"))
    ca_file = ("--set", f"admission.tls.client_ca_file={tmp_path / 'clients.pem'}")
    with running_webhook(tmp_path, *ca_file, *arguments) as webhook:
        assert outcome(webhook, None) == "no answer"
        assert outcome(webhook, strangers.issue_cert(API_SERVER)) == "no answer"
        assert outcome(webhook, clients.issue_cert(API_SERVER)) == 200
        named = clients.issue_cert("x.example", common_name="kube-apiserver")
        assert outcome(webhook, named) == 200
        assert outcome(webhook, clients.issue_cert("other.example")) == other_name
        for path in ("/livez", "/readyz", "/metrics"):
            assert webhook.plain.get(path).status_code == 200


def test_the_authority_is_replaced(tmp_path: Path) -> None:
    """Without a restart, and a file that cannot be used changes nothing."""
    old, new = trustme.CA(), trustme.CA()
    file = tmp_path / "clients.pem"
    old.cert_pem.write_to_path(str(file))
    with running_webhook(tmp_path, f"--set=admission.tls.client_ca_file={file}") as webhook:
        replace(file, "no certificate")
        webhook.server.wait_for_log("cannot use the changed file")
        assert outcome(webhook, old.issue_cert(API_SERVER)) == 200
        replace(file, new.cert_pem.bytes().decode())
        eventually(lambda: outcome(webhook, new.issue_cert(API_SERVER)) == 200, True)
        assert outcome(webhook, old.issue_cert(API_SERVER)) == "no answer"
