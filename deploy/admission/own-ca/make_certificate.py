"""Write the webhook's certificate as Kubernetes objects; the key of its CA is not kept."""

import argparse
import base64
import datetime as dt
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HOST = "queuegate-admission.yunikorn.svc"
SECRET = "queuegate-admission-tls"  # noqa: S105 - the name of the object
MADE = "made-by-make-webhook-certificate"
DAYS = 365
WEBHOOKS = {"ca-mutating.yaml": 1, "ca-validating.yaml": 3, "ca-queues.yaml": 2}


def main() -> None:
    """Write secret.yaml, the patches, and the values of the Helm chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(__file__).parent / MADE
    parser.add_argument(
        "folder", nargs="?", type=Path, default=beside, help="where to write (default: %(default)s)"
    )
    parser.add_argument(
        "--host", default=HOST, help="the name of the Service, NAME.NAMESPACE.svc (%(default)s)"
    )
    given = parser.parse_args()
    folder, names = given.folder, (given.host, f"{given.host}.cluster.local")
    folder.mkdir(exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "queuegate-admission-ca")])
    ca = (
        _certificate(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    certificate = (
        _certificate(name, ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key_text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": _encoded(_pem(certificate)), "tls.key": _encoded(key_text)},
    }
    _write(folder / "secret.yaml", secret)
    for file, count in WEBHOOKS.items():
        patch = [
            {
                "op": "add",
                "path": f"/webhooks/{number}/clientConfig/caBundle",
                "value": _encoded(_pem(ca)),
            }
            for number in range(count)
        ]
        _write(folder / file, patch)
    values = {"webhook": {"certificate": {"secret": SECRET, "caBundle": _encoded(_pem(ca))}}}
    _write(folder / "helm-values.yaml", values)


def _certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=DAYS))
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _write(file: Path, content: object) -> None:
    # JSON is YAML. Only the owner may read a key, even if an older file let others do so.
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text(f"{json.dumps(content, indent=2)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
