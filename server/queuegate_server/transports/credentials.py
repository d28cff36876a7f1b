"""The TLS credentials of gRPC's listeners, which follow their files."""

import grpc

from queuegate_server.files.certificates import CertificateReloader, ServerCertificate
from queuegate_server.files.watcher import BadFile
from queuegate_server.settings.listeners import ListenerTls


class ReloadingCredentials(CertificateReloader):
    """gRPC server credentials. New connections use the most recently loaded certificate."""

    def __init__(self, tls: ListenerTls, listener: str) -> None:
        """Load a listener's TLS files. Raises BadFile."""

        def check(loaded: ServerCertificate) -> None:
            if not _grpc_supports(loaded):
                raise BadFile(
                    f"{tls.certificate_file}: the certificate has a key of a type that gRPC does"
                    " not support: use RSA, ECDSA with P-256, P-384 or P-521, or Ed25519"
                )

        files = (tls.certificate_file, tls.key_file, tls.client_ca_file)
        super().__init__(*files, check, listener=listener)
        self._given = self.value
        self.credentials = grpc.dynamic_ssl_server_credentials(
            _configuration(self.value),
            self._next_configuration,  # type: ignore[arg-type] # the stubs omit None, "unchanged"
            require_client_authentication=tls.client_ca_file is not None,
        )

    def _next_configuration(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the configuration if it has changed since the last handshake, else None.

        gRPC calls this on each handshake, in its own threads. An unchanged configuration is not
        returned, because replacing one in use by another handshake may crash the process.
        """
        current = self.value
        if current is self._given:
            return None
        self._given = current
        return _configuration(current)


def _configuration(loaded: ServerCertificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(loaded.key, loaded.chain)], loaded.client_ca)


def _grpc_supports(loaded: ServerCertificate) -> bool:
    """Return whether gRPC supports the key type. If not, it silently keeps the old certificate."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only TLS needs it
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
    from cryptography.x509.oid import PublicKeyAlgorithmOID  # noqa: PLC0415 - as above

    algorithm = loaded.leaf.public_key_algorithm_oid
    if algorithm != PublicKeyAlgorithmOID.EC_PUBLIC_KEY:
        return algorithm in {PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5, PublicKeyAlgorithmOID.ED25519}
    try:
        key = loaded.leaf.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return False
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(
        key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1
    )
