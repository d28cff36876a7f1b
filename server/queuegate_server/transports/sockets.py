"""Binds listening addresses, with or without TLS, and reports why binding fails.

gRPC itself would only log the reason, and would take over a running server's Unix socket.
"""

import grp
import os
import pwd
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import grpc

from queuegate_server.files.certificates import CertificateReloader, ServerCertificate
from queuegate_server.files.watcher import BadFile
from queuegate_server.runtime.tcp import CannotListen, open_tcp
from queuegate_server.settings.listeners import ListenAddress, ListenerTls


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


def bind(
    add_port: Callable[[str], int],
    address: ListenAddress,
    socket_mode: int,
    *,
    owner: str | None = None,
    group: str | None = None,
) -> str:
    """Bind a gRPC server to an address; return the address as text, with the actual port.

    Args:
        add_port: The server's method for adding a port, with or without TLS.
        address: The address.
        socket_mode: The file mode of a Unix socket.
        owner: The owner of a Unix socket, by name or number.
        group: The group of a Unix socket, by name or number.

    Raises:
        CannotListen: The address is in use or not local, or its Unix socket cannot be set up.
    """
    if address.path:
        _check_socket_path(address)
    uid = _account_number(address, "user", owner, lambda name: pwd.getpwnam(name).pw_uid)
    gid = _account_number(address, "group", group, lambda name: grp.getgrnam(name).gr_gid)
    # gRPC unescapes the path of a Unix socket, so escape it.
    text = f"unix:{quote(address.path)}" if address.path else address.at_port(address.port)
    try:
        # No client may connect before the socket has its owner, group and mode.
        with _umask(0o777):
            port = add_port(text)
    except RuntimeError:
        raise CannotListen(_bind_failure(address)) from None
    if address.path:
        try:
            os.chown(address.path, uid, gid)
            Path(address.path).chmod(socket_mode)
        except OSError as error:
            # Remove the socket, because a later server could not check whether a socket with mode 0
            # is in use.
            Path(address.path).unlink(missing_ok=True)
            account = f"{owner or ''}:{group or ''}"
            raise CannotListen(
                f"{address.text!r}: the socket cannot be given to {account}: {error.strerror};"
                " only root can change the owner; other users can only choose one of their groups"
            ) from None
    return address.at_port(port)


def _account_number(
    address: ListenAddress, kind: str, account: str | None, look_up: Callable[[str], int]
) -> int:
    """Return the ID of a user or group; -1 if `account` is None."""
    if account is None:
        return -1
    if account.isdecimal():
        return int(account)
    try:
        return look_up(account)
    except KeyError:
        raise CannotListen(f"{address.text!r}: there is no {kind} {account!r}") from None


def _check_socket_path(address: ListenAddress) -> None:
    path = Path(address.path)
    if not path.parent.is_dir():
        raise CannotListen(f"{address.text!r}: the folder {str(path.parent)!r} does not exist")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(f"{address.text!r}: {address.path!r} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address.path)
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise CannotListen(f"{address.text!r}: {error.strerror or error}") from None
    raise CannotListen(f"{address.text!r}: another server is listening on this socket")


def _bind_failure(address: ListenAddress) -> str:
    """Return an error message for a failed bind. Binds a plain socket to find the reason."""
    if address.path:
        return f"{address.text!r}: cannot create the socket; check the permissions of its folder"
    try:
        open_tcp(address.host, address.port).close()
    except CannotListen as error:
        return str(error)
    return f"{address.text!r}: cannot be bound"


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


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
