"""Issues certificates for the webhook. Each certificate has its own CA, whose key is discarded
after signing.

`cryptography` is imported on first use, as in `files/certificates.py`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509 import Certificate, CertificateBuilder, KeyUsage, Name

CHAIN: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"
"""The keys in the Secret. AUTHORITIES begins with the CA that signed the certificate in CHAIN."""
LIFETIME: Final = timedelta(days=365)
RENEWED_BEFORE: Final = timedelta(days=120)
"""A certificate is replaced once its remaining validity falls below this."""
_CLOCK_SKEW: Final = timedelta(hours=1)
"""How far the start of validity is backdated, so that machines with slow clocks accept it."""


def why_renew(files: Mapping[str, bytes], host: str, now: datetime) -> str:
    """Return why a certificate must be replaced; empty if it can be used.

    Args:
        files: The content of the Secret.
        host: The name of the webhook's Service, NAME.NAMESPACE.svc.
        now: The current time, with a time zone.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    if not all(files.get(name) for name in (CHAIN, KEY, AUTHORITIES)):
        return "the Secret contains no certificate"
    try:
        certificate = x509.load_pem_x509_certificate(files[CHAIN])
        authority = x509.load_pem_x509_certificates(files[AUTHORITIES])[0]
        key = load_pem_private_key(files[KEY], None)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        certificate.verify_directly_issued_by(authority)
    except (
        *(ValueError, TypeError, UnsupportedAlgorithm),
        *(x509.ExtensionNotFound, x509.DuplicateExtension, x509.InvalidVersion),
    ):
        return "the certificate in the Secret is unreadable"
    except InvalidSignature:
        return "the certificate is not signed by the first CA in the Secret"
    expires = min(each.not_valid_after_utc for each in (certificate, authority))
    faults = {
        "the key does not belong to the certificate": key.public_key() != certificate.public_key(),
        f"the certificate is not for {host}": host
        not in alternatives.value.get_values_for_type(x509.DNSName),
        f"the certificate expires at {expires:%Y-%m-%d %H:%M} UTC": expires < now + RENEWED_BEFORE,
    }
    return next((fault for fault, is_present in faults.items() if is_present), "")


def issue(host: str, now: datetime, before: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the content of a Secret with a new certificate.

    Args:
        host: The name of the webhook's Service, NAME.NAMESPACE.svc.
        now: The current time, with a time zone.
        before: The content to replace. Its CA remains trusted until it expires, because servers
            present the old certificate until they have read the new one.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    name = _named("queuegate-admission-ca")
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(name, name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    hosts = [x509.DNSName(each) for each in (host, f"{host}.cluster.local")]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    # A common name has at most 64 characters; clients read only the alternative names.
    certificate = (
        _builder(_named("queuegate-admission"), name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(issuer, critical=False)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    authorities = [authority, *_still_trusted(before, now)]
    return {
        CHAIN: _pem(certificate),
        KEY: private,
        AUTHORITIES: b"".join(map(_pem, authorities)),
    }


def _still_trusted(before: Mapping[str, bytes], now: datetime) -> list["Certificate"]:
    """Return the CA that signed the previous certificate, unless the CA has expired."""
    from cryptography import x509  # noqa: PLC0415

    try:
        authorities = x509.load_pem_x509_certificates(before.get(AUTHORITIES, b""))
    except ValueError:
        return []
    return [each for each in authorities[:1] if each.not_valid_after_utc > now]


def _builder(
    subject: "Name", issuer: "Name", key: "EllipticCurvePublicKey", now: datetime
) -> "CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _usage(*, is_authority: bool) -> "KeyUsage":
    """Return the usage of a key: to sign certificates if `is_authority`, otherwise to sign
    handshakes.
    """
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(common_name: str) -> "Name":
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: "Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    return certificate.public_bytes(Encoding.PEM)
