"""TLS of a listener: its certificate, key and client authorities, followed as they change."""

import logging
import ssl
import time
from collections.abc import Sequence
from typing import Final

import grpc

from queuegate_server.certificate_fields import public_key_type, validity
from queuegate_server.files.followed_files import BadFile, FollowedFiles
from queuegate_server.settings.listeners import Tls

_LOG = logging.getLogger("queuegate_server.files")
_KEYS_OF_GRPC: Final = tuple(
    map(
        bytes.fromhex,
        (
            "06092a864886f70d010101",  # RSA
            "06072a8648ce3d020106082a8648ce3d030107",  # ECDSA with P-256, P-384, P-521
            "06072a8648ce3d020106052b81040022",
            "06072a8648ce3d020106052b81040023",
            "06032b6570",  # Ed25519
        ),
    )
)
"""Types of keys that gRPC's TLS knows. With others, which OpenSSL takes, it goes on with the
certificate before, and does not say so."""

_Read = tuple[grpc.ServerCertificateConfiguration, tuple[float, float] | None]
"""With the period in which the certificate and its chain are valid, if that is known."""


class ReloadingCertificate:
    """Credentials whose new connections are made with what the files say by then.

    gRPC asks for the configuration at each handshake, in threads of its own.
    """

    def __init__(self, tls: Tls, listener: str) -> None:
        """Read the files of a listener, which its address names. Raises BadFile, which names
        the one that is wrong.
        """
        self._tls = tls
        self.listener = listener
        self.expires: float | None = None
        """When the first certificate of its file expires, in Unix seconds, if that is known."""
        self._current: grpc.ServerCertificateConfiguration | None = None
        self._given: grpc.ServerCertificateConfiguration | None = None
        paths = [tls.certificate_file, tls.key_file]
        if tls.client_ca_file is not None:
            paths.append(tls.client_ca_file)
        self._files = FollowedFiles(paths, self._configuration, self._publish)
        first = self._take()
        if first is None:
            raise AssertionError("the first configuration is published before")
        self.credentials = grpc.dynamic_ssl_server_credentials(
            first,
            self._take,  # type: ignore[arg-type] # the stubs leave out that None is "unchanged"
            require_client_authentication=tls.client_ca_file is not None,
        )

    @property
    def used(self) -> int:
        """How many readings of the files were used, the first one included."""
        return self._files.used

    @property
    def refused(self) -> int:
        """How many were not."""
        return self._files.refused

    def look(self) -> None:
        """Read the files now; blocks for ten seconds at most."""
        self._files.look()

    def close(self) -> None:
        """Follow the files no longer."""
        self._files.close()

    def _publish(self, read: _Read) -> None:
        self._current, period = read
        self.expires = None if period is None else period[1]
        if period is None or period[0] <= time.time() < period[1]:
            return
        fields = {"listener": self.listener, "file": str(self._tls.certificate_file)}
        if period[0] > time.time():
            _LOG.warning(
                "the certificate is not valid yet: clients refuse to connect", extra=fields
            )
        else:
            _LOG.warning("the certificate has expired: clients refuse to connect", extra=fields)

    def _take(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what is new since the last handshake, None if nothing is.

        Not more often than that: gRPC replaces what other handshakes may just be using, and
        each time it does, the process may crash.
        """
        current = self._current
        if current is self._given:
            return None
        self._given = current
        return current

    def _configuration(self, contents: Sequence[bytes]) -> _Read:
        certificate, key, *authorities = contents
        _check(self._tls)
        type_of_key = public_key_type(certificate)
        if type_of_key is not None and not type_of_key.startswith(_KEYS_OF_GRPC):
            raise BadFile(
                f"{self._tls.certificate_file}: certificate_file is for a key of a type that gRPC"
                " cannot use (take RSA, ECDSA with P-256, P-384 or P-521, or Ed25519)"
            )
        configuration = grpc.ssl_server_certificate_configuration(
            [(key, certificate)], *authorities
        )
        return configuration, validity(certificate)


def _check(tls: Tls) -> None:
    """Find with OpenSSL what gRPC would only log. Raises BadFile."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    named = ((tls.certificate_file, "certificate_file"), (tls.client_ca_file, "client_ca_file"))
    for path, name in named:
        if path is None:
            continue
        try:
            context.load_verify_locations(path)
        except ssl.SSLError:
            raise BadFile(
                f"{path}: {name} has no PEM certificate, or one that cannot be read"
            ) from None
    try:
        context.load_cert_chain(tls.certificate_file, tls.key_file, password=_no_passphrase)
    except ssl.SSLError as error:
        raise BadFile(
            f"{tls.key_file}: key_file is no PEM private key without a passphrase, or not that of"
            f" {tls.certificate_file} ({error.reason or 'unreadable'})"
        ) from None


def _no_passphrase() -> bytes:
    """Keep OpenSSL from asking on the terminal."""
    return b""
