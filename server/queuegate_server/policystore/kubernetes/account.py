"""The API server's address, and the account used to call it: a pod's own, or one in a kubeconfig.

All files are read again for each request, because tokens and certificates are rotated. Programs
that print credentials (`exec`) are refused, because they would run with this process's rights at
any time.
"""

import base64
import binascii
import functools
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from yarl import URL

from queuegate_server.files.safe_open import read_regular
from queuegate_server.formats.yaml_nodes import plain_data
from queuegate_server.formats.yaml_reader import read_yaml

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the token and the CA of a pod's account."""
_MAX_BYTES: Final = 1024 * 1024
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_REFUSED: Final[Mapping[str, str]] = {
    "exec": "a program that prints credentials",
    "auth-provider": "an auth-provider",
    "username": "a user name and password",
    "password": "a user name and password",
    "as": "impersonation",
}
_USE: Final = "use a token, tokenFile, or client-certificate and client-key"


class CannotAsk(Exception):
    """The account cannot be used. The message says why, and what to do."""


class AccountCredentials(NamedTuple):
    """What a request to the API server needs."""

    url: URL
    token: str
    """Empty if a certificate identifies the account."""
    tls: ssl.SSLContext | None
    """None for an unprotected address on loopback."""


class Account(Protocol):
    """The source of credentials."""

    name: str
    """For display: the address, or the kubeconfig."""

    def credentials(self) -> AccountCredentials:
        """Read the credentials. Blocks. Raises CannotAsk."""


class PodAccount:
    """The account of the pod in which this process runs."""

    def __init__(self, environment: Mapping[str, str] = os.environ, folder: Path = ACCOUNT) -> None:
        self._folder = folder
        host, port = environment.get(_HOST, ""), environment.get(_PORT, "443")
        self._url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._is_pod = bool(host)
        self.name = "the API server of this pod's cluster"

    def credentials(self) -> AccountCredentials:
        """Read the credentials. Raises CannotAsk."""
        if not self._is_pod:
            raise CannotAsk(
                "this process is not running in a pod: set policy.kubernetes.kubeconfig, or"
                " manifests for commands that need no server"
            )
        token = _read(self._folder / "token").decode(errors="replace").strip()
        authority = _read(self._folder / "ca.crt")
        return AccountCredentials(URL(self._url), _checked_token(token), _tls(authority, b"", b""))


_Section = Mapping[str, object]


class Kubeconfig:
    """An account in a kubeconfig: its current context."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = f"the API server in {path}"

    def credentials(self) -> AccountCredentials:
        """Read the credentials. Raises CannotAsk."""
        read = plain_data(read_yaml(_read(self._path), str(self._path)).root)
        if not isinstance(read, dict):
            raise self._fault("is not a kubeconfig")
        context = self._section(read, "context", read.get("current-context"))
        cluster = self._section(read, "cluster", context.get("cluster"))
        user = self._section(read, "user", context.get("user"))
        for refused, what in _REFUSED.items():
            if user.get(refused):
                raise self._fault(f"the user has {what} ({refused}), which is refused: {_USE}")
        if self._text(cluster, "insecure-skip-tls-verify") not in {"", "false"}:
            raise self._fault(
                "insecure-skip-tls-verify lets anyone impersonate the API server: name the CA"
            )
        if cluster.get("proxy-url"):
            raise self._fault("proxy-url is not supported: name an address that needs no proxy")
        url = URL(self._text(cluster, "server"))
        if url.scheme == "http" and url.host in _LOOPBACK:
            return AccountCredentials(url, "", None)
        if url.scheme != "https" or not url.host:
            raise self._fault("server must be an https:// address, or http:// on loopback")
        authority = self._bytes(cluster, "certificate-authority")
        certificate, key = (self._bytes(user, f"client-{each}") for each in ("certificate", "key"))
        token = self._text(user, "token")
        if file := self._text(user, "tokenFile"):
            token = _read(self._path.parent / file).decode(errors="replace").strip()
        if bool(certificate) is not bool(key) or not (token or certificate):
            raise self._fault(f"the user has no usable credentials: {_USE}")
        return AccountCredentials(url, _checked_token(token), _tls(authority, certificate, key))

    def _section(self, read: _Section, kind: str, name: object) -> _Section:
        """Return a named section. Raises CannotAsk."""
        entries = read.get(f"{kind}s")
        for each in entries if isinstance(entries, list) else ():
            if isinstance(each, dict) and each.get("name") == name:
                section = each.get(kind)
                if isinstance(section, dict):
                    return section
        raise self._fault(f"there is no {kind} {name!r}: check current-context")

    def _text(self, section: _Section, key: str) -> str:
        """Return a value; empty if there is none. Raises CannotAsk."""
        value = section.get(key) or ""
        if not isinstance(value, str):
            raise self._fault(f"{key} is not text")
        return value

    def _bytes(self, section: _Section, key: str) -> bytes:
        """Return the bytes in a value, or in the file that it names. Raises CannotAsk."""
        path, data = self._text(section, key), self._text(section, f"{key}-data")
        if not data:
            return _read(self._path.parent / path) if path else b""
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise self._fault(f"{key}-data is not base64") from None

    def _fault(self, text: str) -> CannotAsk:
        return CannotAsk(f"{self._path}: {text}")


@functools.lru_cache(maxsize=2)
def _tls(authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a TLS context, which is built again only if a file has changed. Raises CannotAsk."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") or None)
        if certificate:
            _load_certificate(context, certificate, key)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise CannotAsk(f"the CA, certificate or key is not valid PEM: {error}") from None
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # OpenSSL reads certificates only from files. Only this process can read the folder.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(file)


def _read(path: Path) -> bytes:
    """Return the content of a file. Raises CannotAsk."""
    try:
        data = read_regular(path, _MAX_BYTES)
    except OSError as error:
        raise CannotAsk(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise CannotAsk(f"{path} is larger than 1 MiB")
    return data


def _checked_token(token: str) -> str:
    """Return a token that fits into a header. Raises CannotAsk."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise CannotAsk("the token contains characters that a token cannot contain")
    return token
