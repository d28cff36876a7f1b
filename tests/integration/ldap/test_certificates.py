"""Certificates as private authorities issue them: one behaviour on every Python, with advice."""

import datetime as dt
import ipaddress
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from queuegate_server.identity.resolver import KnownUser, LookupFailure
from queuegate_server.identity.resolvers.ldap.ldap_options import LdapOptions
from tests.integration.ldap.conftest import Build
from tests.support.fakes.ldap_server import Answer, fake_directory
from tests.support.servers.slapd import PEOPLE

PEM = serialization.Encoding.PEM


class Issued(NamedTuple):
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(PEM)


def issue(
    name: str,
    issuer: Issued | None = None,
    *,
    leave_out: Sequence[type] = (),
    critical: bool = True,
) -> Issued:
    """Issue the certificate of a CA, or of a server if the name is an address."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer = issuer.key if issuer else key
    extensions: list[tuple[Any, bool]] = [
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    if name[0].isdigit():
        address = x509.IPAddress(ipaddress.ip_address(name))
        extensions.append((x509.SubjectAlternativeName([address]), False))
    else:
        usage = dict.fromkeys(
            ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
             "key_agreement", "encipher_only", "decipher_only"),
            False,
        )  # fmt: skip
        extensions.append((x509.BasicConstraints(ca=True, path_length=None), critical))
        extensions.append((x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), True))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
    )
    for extension, is_critical in extensions:
        if not isinstance(extension, tuple(leave_out)):
            builder = builder.add_extension(extension, critical=is_critical)
    return Issued(name, key, builder.sign(signer, hashes.SHA256()))


ROOT = issue("root")
INTERMEDIATE = issue("intermediate", ROOT)
LEAF = issue("127.0.0.1", INTERMEDIATE)
NO_IDENTIFIERS = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
OLD = issue("old", leave_out=NO_IDENTIFIERS)
OLD_LEAF = issue("127.0.0.1", OLD, leave_out=NO_IDENTIFIERS)
UNCRITICAL = issue("uncritical", critical=False)
UNUSED = issue("unused", leave_out=[x509.KeyUsage])
KEY_IDENTIFIER = "authorityKeyIdentifier=keyid"
RFC_5280 = "basicConstraints=critical,CA:TRUE and keyUsage=critical,keyCertSign,cRLSign"
ROOT_IS_MISSING = "add the root certificate to ca_file"

CASES = {
    "all are there": ([LEAF, INTERMEDIATE], [ROOT], ""),
    "root and intermediate in ca_file": ([LEAF], [ROOT, INTERMEDIATE], ""),
    "no key identifiers": ([OLD_LEAF], [OLD], KEY_IDENTIFIER),
    "no authority key identifier": (
        [issue("127.0.0.1", ROOT, leave_out=[x509.AuthorityKeyIdentifier])],
        [ROOT],
        KEY_IDENTIFIER,
    ),
    "basic constraints that are not critical": (
        [issue("127.0.0.1", UNCRITICAL)],
        [UNCRITICAL],
        RFC_5280,
    ),
    "no key usage": ([issue("127.0.0.1", UNUSED)], [UNUSED], RFC_5280),
    "the intermediate is not sent": ([LEAF], [ROOT], "let the server send its certificate"),
    "ca_file is the intermediate": ([LEAF], [INTERMEDIATE], ROOT_IS_MISSING),
    "ca_file is the intermediate, which is sent": (
        [LEAF, INTERMEDIATE],
        [INTERMEDIATE],
        ROOT_IS_MISSING,
    ),
}


@pytest.mark.parametrize(("sent", "trusted", "advice"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("more", [0, ssl.VERIFY_X509_STRICT, 0x80000])
async def test_certificates_count_the_same_on_every_python(
    resolver: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sent: list[Issued],
    trusted: list[Issued],
    advice: str,
    more: int,
) -> None:
    """Whatever flags Python sets by itself: 3.13 has VERIFY_X509_STRICT and _PARTIAL_CHAIN."""
    original = ssl.create_default_context

    def create(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        context = original(*args, **kwargs)
        context.verify_flags |= more
        return context

    monkeypatch.setattr(ssl, "create_default_context", create)
    key = sent[0].key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "server.pem").write_bytes(key + b"".join(each.pem for each in sent))
    (tmp_path / "trusted.pem").write_bytes(b"".join(each.pem for each in trusted))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    bob = Answer([(f"uid=bob,{PEOPLE}", {"uid": [b"bob"]})])
    async with fake_directory(
        lambda search: bob if "uid=bob)" in search.filter else Answer(), context
    ) as fake:
        url = fake.url.replace("ldap:", "ldaps:")
        opened = await resolver(url, ca_file=tmp_path / "trusted.pem", group_base=PEOPLE)
        outcome = await opened.resolve("bob")
        if advice:
            assert isinstance(outcome, LookupFailure), outcome
            assert "the server's certificate is not valid" in outcome.detail
            assert advice in outcome.detail
        else:
            assert isinstance(outcome, KnownUser), outcome


def test_flags_are_set(options: Callable[..., LdapOptions]) -> None:
    flags = options("ldaps://directory.example").tls_context().verify_flags
    assert flags == ssl.VERIFY_X509_TRUSTED_FIRST | ssl.VERIFY_X509_STRICT
