"""The webhook's certificates: when they are replaced, and whom the API server trusts meanwhile."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store

from queuegate_server.admission.certificate.issuer import (
    AUTHORITIES,
    CHAIN,
    KEY,
    LIFETIME,
    RENEWED_BEFORE,
    issue,
    why_renew,
)
from queuegate_server.cli.admission import admission

HOST = "queuegate-admission.queuegate.svc"
NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_a_client_trusts_it_for_the_name_of_the_service() -> None:
    """And for no other name."""
    files = issue(HOST, NOW, {})
    certificate = x509.load_pem_x509_certificate(files[CHAIN])
    store = Store(x509.load_pem_x509_certificates(files[AUTHORITIES]))
    for name in (HOST, f"{HOST}.cluster.local"):
        verifier = PolicyBuilder().store(store).time(NOW)
        verifier.build_server_verifier(x509.DNSName(name)).verify(certificate, [])
    other = PolicyBuilder().store(store).time(NOW)
    with pytest.raises(x509.verification.VerificationError):
        other.build_server_verifier(x509.DNSName("other.queuegate.svc")).verify(certificate, [])


def test_it_is_a_server_certificate_that_ssl_loads(tmp_path: Path) -> None:
    for name, content in issue(HOST, NOW, {}).items():
        (tmp_path / name).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / CHAIN, tmp_path / KEY)


def test_it_is_kept_until_it_must_be_renewed() -> None:
    files = issue(HOST, NOW, {})
    due = NOW + LIFETIME - RENEWED_BEFORE
    assert why_renew(files, HOST, NOW) == ""
    assert why_renew(files, HOST, due) == ""
    assert why_renew(files, HOST, due + timedelta(seconds=1)).startswith("the certificate expires")


def test_the_authority_before_stays_trusted_until_it_expires() -> None:
    """Servers present the old certificate until they have read the new one."""
    first = issue(HOST, NOW, {})
    second = issue(HOST, NOW + timedelta(days=300), first)
    third = issue(HOST, NOW + timedelta(days=400), second)
    assert second[AUTHORITIES].endswith(first[AUTHORITIES])
    assert third[AUTHORITIES].count(b"BEGIN CERTIFICATE") == 2
    assert first[AUTHORITIES] not in third[AUTHORITIES]
    late = issue(HOST, NOW + timedelta(days=366), first)
    assert first[AUTHORITIES] not in late[AUTHORITIES]
    assert why_renew(second, HOST, NOW + timedelta(days=300)) == ""


def test_no_two_certificates_share_a_key() -> None:
    keys = {issue(HOST, NOW, {})[KEY] for _ in range(3)}
    assert len(keys) == 3


def test_what_does_not_fit_is_replaced() -> None:
    files, other = issue(HOST, NOW, {}), issue(HOST, NOW, {})
    assert why_renew({}, HOST, NOW) == "the Secret contains no certificate"
    assert why_renew({**files, KEY: b""}, HOST, NOW) == "the Secret contains no certificate"
    for name in (CHAIN, KEY, AUTHORITIES):
        unreadable = {**files, name: b"-----BEGIN CERTIFICATE-----\nAAAA\n"}
        assert why_renew(unreadable, HOST, NOW) == "the certificate in the Secret is unreadable"
    assert "does not belong" in why_renew({**files, KEY: other[KEY]}, HOST, NOW)
    assert "not signed" in why_renew({**files, AUTHORITIES: other[AUTHORITIES]}, HOST, NOW)
    assert why_renew(files, "other.ns.svc", NOW) == "the certificate is not for other.ns.svc"
    # What is replaced may be anything.
    assert why_renew(issue(HOST, NOW, {AUTHORITIES: b"\xff"}), HOST, NOW) == ""


def test_the_key_of_the_authority_is_not_kept() -> None:
    files = issue(HOST, NOW, {})
    assert b"".join(files.values()).count(b"PRIVATE KEY-----") == 2
    key = load_pem_private_key(files[KEY], None)
    authority = x509.load_pem_x509_certificate(files[AUTHORITIES])
    assert key.public_key() != authority.public_key()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("", "Missing option '--configuration'"),
        ("--configuration pods/a", "write validatingwebhookconfigurations/NAME or"),
        ("--configuration validatingwebhookconfigurations/../a", "must consist of lowercase"),
        ("--configuration validatingwebhookconfigurations/", "must consist of lowercase"),
        ("--secret ../a", "must consist of lowercase"),
        ("--service a", "is not of the form NAMESPACE/NAME"),
    ],
)
def test_names_are_checked(arguments: str, said: str) -> None:
    done = CliRunner().invoke(admission, ["certificate", *arguments.split()])
    assert done.exit_code == 2
    assert said in done.stderr
