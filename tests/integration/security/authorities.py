"""Authorities, certificates and servers that show or ask for them."""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import trustme
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import queuegate
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import RunningServer, running_server

SPIFFE = "spiffe://example.org/ns/yunikorn/sa/scheduler"
SECRET_QUEUE = "root.secret-project"
"""Part of the policy, and so of no error."""
POLICY = f"""\
partitions:
  - name: default
    usergroupresolver: {{type: test}}
    queues:
      - name: root
        adminacl: secret-boss
        queues:
          - name: open
            submitacl: "*"
          - name: {SECRET_QUEUE.removeprefix("root.")}
            submitacl: " secret-group"
"""
ONCE = queuegate.Retry(attempts=1)
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """An authority that writes what it issues into a folder."""

    folder: Path
    made: trustme.CA

    @property
    def file(self) -> Path:
        path = self.folder / "ca.pem"
        if not path.exists():
            self.made.cert_pem.write_to_path(path)
        return path

    def server(self, name: str = "server") -> tuple[Path, Path]:
        """Issue a certificate for localhost; return its file and that of the key."""
        issued = self.made.issue_cert("localhost", "127.0.0.1")
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        return self._written(name, chain, issued.private_key_pem.bytes())

    def renewed(self, begin: int, end: int) -> bytes:
        """Return another certificate of the same authority, valid between two days from now."""
        before = x509.load_pem_x509_certificate(self.made.cert_pem.bytes())
        key = serialization.load_pem_private_key(self.made.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder(
            before.subject,
            before.subject,
            key.public_key(),
            x509.random_serial_number(),
            now + begin * _DAY,
            now + end * _DAY,
            list(before.extensions),
        )
        made = builder.sign(key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)

    def client(
        self, name: str, *names: x509.GeneralName, common_name: str = "", seconds: int = 86_400
    ) -> queuegate.Tls:
        """Issue a certificate with any names; with negative `seconds` it has expired."""
        issuer = x509.load_pem_x509_certificate(self.made.cert_pem.bytes())
        signing = serialization.load_pem_private_key(self.made.private_key_pem.bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(attributes))
            .issuer_name(issuer.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now + dt.timedelta(seconds=seconds))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName(names), critical=not attributes
            )
        pem = builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        certificate, key_file = self._written(name, pem, private)
        return self.tls(certificate, key_file)

    def tls(self, certificate: Path | None = None, key: Path | None = None) -> queuegate.Tls:
        return queuegate.Tls(self.file, certificate, key)

    def _written(self, name: str, certificate: bytes, key: bytes) -> tuple[Path, Path]:
        files = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        for file, content in zip(files, (certificate, key), strict=True):
            file.write_bytes(content)
        return files


@contextmanager
def configured(
    folder: Path,
    listen: object = None,
    constants: Mapping[str, object] | None = None,
    **settings: Any,
) -> Iterator[RunningServer]:
    """Run a server with these settings, and with these values of constants."""
    (folder / "queues.yaml").write_text(POLICY)
    written = {
        "listen": listen or ["127.0.0.1:0"],
        "policy": {"path": str(folder / "queues.yaml")},
        **settings,
    }
    config = folder / "queuegate.yaml"
    config.write_text(yaml.safe_dump(written))
    changed = with_constants.environment(constants) if constants else None
    with running_server("--config", str(config), listen=(), environment=changed) as server:
        yield server


def with_tls(authority: Authority, *, mutual: bool = True) -> dict[str, Any]:
    certificate, key = authority.server()
    tls = {"certificate_file": str(certificate), "key_file": str(key)}
    if mutual:
        tls["client_ca_file"] = str(authority.file)
    return {"address": "127.0.0.1:0", "tls": tls}


def issued(authority: Authority) -> dict[str, bytes]:
    """Return the files that a listener of these tests reads, by name."""
    certificate, key = authority.server()
    return {
        "tls.crt": certificate.read_bytes(),
        "tls.key": key.read_bytes(),
        "ca.crt": authority.file.read_bytes(),
    }


def listener(folder: Path) -> dict[str, object]:
    """Return the settings of a listener with the files `issued`, in this folder."""
    tls = {
        "certificate_file": str(folder / "tls.crt"),
        "key_file": str(folder / "tls.key"),
        "client_ca_file": str(folder / "ca.crt"),
    }
    return {"address": "127.0.0.1:0", "tls": tls}


def spiffe(text: str) -> x509.GeneralName:
    return x509.UniformResourceIdentifier(text)


def dns(text: str) -> x509.GeneralName:
    return x509.DNSName(text)


def client(address: str, tls: queuegate.Tls | None = None, **options: Any) -> queuegate.Client:
    """Return a client that takes the first answer it gets."""
    return queuegate.Client(address, timeout=60, tls=tls, retry=ONCE, **options)


def reveals_nothing(error: queuegate.QueuegateError) -> bool:
    """Say that a refusal has no word of the policy."""
    message = f"{error} {error.reason} {error.code}"
    return "secret" not in message and "root" not in message and "open" not in message


def channel(
    address: str, tls: queuegate.Tls | None = None, options: Sequence[tuple[str, Any]] = ()
) -> grpc.Channel:
    """Return a channel without our client, as another language would have it."""
    if tls is None:
        return grpc.insecure_channel(address)
    content = [
        None if path is None else Path(path).read_bytes()
        for path in (tls.ca_file, tls.key_file, tls.certificate_file)
    ]
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(*content), options)
