"""Options, credentials and metadata for a gRPC channel, shared by both clients."""

import json
import logging
import os
import re
import ssl
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
import grpc.aio

from queuegate import _validation
from queuegate._address import Address, parse
from queuegate._settings import (
    TLS_VARIABLES,
    TOKEN_FILE,
    FilePath,
    Retry,
    Tls,
    tls_from_environment,
    token_file_from_environment,
)
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2

MAX_RECEIVE_BYTES: Final = 64 * 1024 * 1024
"""The maximum response size, enough for a full batch with long queue paths or a very large
policy.
"""

_SERVICES: Final = [
    service.full_name
    for file in (access_pb2.DESCRIPTOR, user_groups_pb2.DESCRIPTOR, policy_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
]

_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    # Reject compressed responses, because gRPC before 1.83.1 decompresses messages of any size.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Give each client its own connection, with its own share of the server's streams.
    ("grpc.use_local_subchannel_pool", 1),
    # Make room for the largest request, because calls that exceed this buffer are never retried.
    ("grpc.per_rpc_retry_buffer_size", 5 * 1024 * 1024),
    # By default, gRPC servers disconnect clients that ping more than once every 5 minutes. The
    # timeout also applies between pings: a connection is closed if the peer's kernel does not
    # acknowledge data in time.
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Reconnect to a restarted sidecar within 2 seconds. gRPC's default is up to 2 minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Ignore HTTP proxies set in the environment, since the server is on this machine or network.
    # The first option disables grpc_proxy, https_proxy and http_proxy; the second disables
    # GRPC_ADDRESS_HTTP_PROXY by leaving no addresses for it to apply to.
    ("grpc.enable_http_proxy", 0),
    ("grpc.address_http_proxy_enabled_addresses", ""),
]


TOKEN_CHECK_SECONDS: Final = 1.0
MAX_TOKEN_BYTES: Final = 4096

Metadata = tuple[tuple[str, str | bytes], ...]

CallMetadata: TypeAlias = Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]
"""Metadata that the calling program adds to each call."""
Interceptor: TypeAlias = (
    grpc.UnaryUnaryClientInterceptor
    | grpc.UnaryStreamClientInterceptor
    | grpc.StreamUnaryClientInterceptor
    | grpc.StreamStreamClientInterceptor
)
"""An interceptor for a blocking client."""
_KEY: Final = re.compile(r"[0-9a-z_.-]+")
_RESERVED: Final = "grpc-"
_BINARY: Final = "-bin"
_AUTHORIZATION: Final = "authorization"

_LOG: Final = logging.getLogger("queuegate.token")


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking on a pipe that has no writer."""
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Add the setting's name to the message of any OSError raised in the block."""
    try:
        yield
    except OSError as error:
        fault = f"{error.strerror} (from {setting})"
        raise OSError(error.errno, fault, error.filename) from None


NOT_COPIED: Final = (
    "cannot be copied or pickled, because it holds a connection: create another one with the same"
    " arguments, in each process that needs one"
)
"""The end of an error message, after the kind of object."""


class BearerToken:
    """A bearer token, reread from its file at most once a second. Thread-safe."""

    def __init__(
        self,
        path: FilePath,
        clock: Callable[[], float] = time.monotonic,
        setting: str = "token_file",
    ) -> None:
        """Read the token file. Error messages give `setting` as the source of the path.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file does not contain a valid token.
        """
        self._path = Path(path)
        self._setting = setting
        self._clock = clock
        self._logged_error = ""
        """The error from the last attempt to read the file; empty if it succeeded."""
        self._metadata = self._read()
        self._look_at = clock() + TOKEN_CHECK_SECONDS

    @property
    def metadata(self) -> Metadata:
        """The metadata for a call. It contains the file's token, or the last valid token while the
        file is unreadable or invalid.
        """
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + TOKEN_CHECK_SECONDS
            self._reread()
        return self._metadata

    def _reread(self) -> None:
        try:
            self._metadata = self._read()
        except (OSError, ValueError) as error:
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                _LOG.warning(
                    "the token file cannot be read; calls send the last valid token: %s", error
                )
        else:
            self._logged_error = ""

    def _read(self) -> Metadata:
        with (
            _naming(self._setting),
            open(self._path, "rb", opener=_open_without_waiting) as opened,
        ):
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ValueError(f"{self._setting} {str(self._path)!r} must be a regular file")
            content = opened.read(MAX_TOKEN_BYTES + 1)
        token = content.decode("ascii", "replace").strip()
        # The message never quotes the content, since even a malformed token may be secret.
        if (
            not token
            or len(content) > MAX_TOKEN_BYTES
            or not all("!" <= sign <= "~" for sign in token)
        ):
            raise ValueError(
                f"{self._setting} {str(self._path)!r} must contain exactly one ASCII token"
            )
        return ((_AUTHORIZATION, f"Bearer {token}"),)


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """The options for a channel and its calls."""

    address: Address
    credentials: grpc.ChannelCredentials | None
    """The credentials; None for plaintext."""
    options: list[tuple[str, Any]]
    timeout: float
    """The default time limit for calls, in seconds."""
    token: BearerToken | None = None
    own_metadata: Metadata = field(default=(), repr=False)
    """The calling program's metadata. It may contain secrets."""
    interceptors: Sequence[Any] = ()
    """The calling program's interceptors, outermost first."""

    @property
    def metadata(self) -> Metadata | None:
        """The metadata for each call."""
        if self.token is None:
            return self.own_metadata or None
        return self.own_metadata + self.token.metadata


def plan(
    address: str | None,
    timeout: float,
    tls: Tls | None,
    retry: Retry,
    token_file: FilePath | None = None,
    *,
    metadata: CallMetadata = (),
    interceptors: Iterable[Any] = (),
    kind: Any = Interceptor,
) -> ChannelPlan:
    """Validate a client's arguments and return its channel plan.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument or a file is invalid.
        OSError: A file cannot be read.
    """
    for name, value, expected in (("tls", tls, Tls | None), ("retry", retry, Retry)):
        if not isinstance(value, expected):
            raise TypeError(f"{name} must be a queuegate.{name.title()}, not {value!r}")
    parsed = parse(address)
    tls_settings = {name: name for name in TLS_VARIABLES}
    if tls is None and not parsed.is_unix:
        tls, tls_settings = tls_from_environment(), TLS_VARIABLES
    source = "token_file"
    if token_file is None:
        token_file, source = token_file_from_environment(), TOKEN_FILE
    own = _validate_metadata(metadata)
    is_authorized = any(key == _AUTHORIZATION for key, _ in own)
    if is_authorized and token_file is not None:
        raise ValueError(f"metadata must not contain {_AUTHORIZATION!r} if a token file sets it")
    if (token_file is not None or is_authorized) and tls is None and not parsed.is_local:
        secret = f"metadata {_AUTHORIZATION!r}" if is_authorized else "the token"
        raise ValueError(
            f"refusing to send {secret} to {parsed.text} unencrypted: use TLS, with"
            " Tls(ca_file=…) or QUEUEGATE_CA_FILE"
        )
    options = [*_OPTIONS, *_retry_options(retry)]
    if tls is not None and tls.server_name is not None:
        options += [
            ("grpc.ssl_target_name_override", tls.server_name),
            ("grpc.default_authority", tls.server_name),
        ]
    return ChannelPlan(
        parsed,
        None if tls is None else _credentials(tls, tls_settings),
        options,
        _validation.seconds("timeout", timeout),
        None if token_file is None else BearerToken(token_file, setting=source),
        own,
        _validate_interceptors(interceptors, kind),
    )


def _validate_metadata(metadata: CallMetadata) -> Metadata:
    """Validate metadata and convert it to gRPC's form. Error messages never contain the values."""
    checked: list[tuple[str, str | bytes]] = []
    try:
        pairs: list[tuple[Any, Any]] = [
            (key, value)
            for key, value in (metadata.items() if isinstance(metadata, Mapping) else metadata)
        ]
    except (TypeError, ValueError):
        pairs = [(None, None)]
    if not all(isinstance(key, str) for key, _ in pairs):
        raise TypeError("metadata must be a mapping, or pairs of a str and a str or bytes")
    for key, value in pairs:
        if not _KEY.fullmatch(key) or key.startswith(_RESERVED):
            raise ValueError(
                f"metadata {key!r}: a key consists of lowercase letters, digits, '_', '-' and '.',"
                f" and does not start with {_RESERVED!r}"
            )
        if not isinstance(value, bytes if key.endswith(_BINARY) else str):
            raise TypeError(
                f"metadata {key!r} must be {'bytes' if key.endswith(_BINARY) else 'a str'}: values"
                f" are bytes if the key ends with {_BINARY!r}, and otherwise str"
            )
        if isinstance(value, str) and not all(" " <= sign <= "~" for sign in value):
            raise ValueError(f"metadata {key!r} must consist of printable ASCII characters")
        checked.append((key, value))
    return tuple(checked)


def _validate_interceptors(interceptors: Iterable[Any], kind: Any) -> list[Any]:
    """Return the interceptors as a list. Raises TypeError if any is not an instance of `kind`."""
    checked = list(interceptors)
    for index, each in enumerate(checked):
        if not isinstance(each, kind):
            package = "grpc.aio" if kind is grpc.aio.ClientInterceptor else "grpc"
            raise TypeError(
                f"interceptors[{index}] must be a client interceptor of {package}, such as"
                f" {package}.UnaryUnaryClientInterceptor, not {type(each).__name__}"
            )
    return checked


def _retry_options(retry: Retry) -> list[tuple[str, Any]]:
    if retry.attempts == 1:
        # gRPC still resends calls that the server never processed, for example because it was
        # closing an old connection. Do not set "grpc.enable_retries" to 0, because such calls would
        # then fail.
        return []
    policy = {
        "maxAttempts": retry.attempts,
        "initialBackoff": f"{retry.initial_backoff:.3f}s",
        "maxBackoff": f"{retry.max_backoff:.3f}s",
        "backoffMultiplier": 2,
        # Include CANCELLED, because calls to a server that is shutting down fail with it.
        "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
    }
    config = {
        "methodConfig": [
            {"name": [{"service": name} for name in _SERVICES], "retryPolicy": policy}
        ],
        # Each failed attempt costs a token, and each success restores a tenth of a token. Retries
        # pause while at most half of the tokens remain.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
    }
    return [("grpc.service_config", json.dumps(config))]


def _credentials(tls: Tls, settings: Mapping[str, str]) -> grpc.ChannelCredentials:
    """Read the TLS files. Raises OSError if a file is unreadable, and ValueError if it is
    invalid.
    """
    contents = {}
    for name, setting in settings.items():
        file = getattr(tls, name)
        with _naming(setting):
            contents[name] = None if file is None else Path(file).read_bytes()
    _check_with_openssl(tls, settings)
    return grpc.ssl_channel_credentials(
        contents["ca_file"], contents["key_file"], contents["certificate_file"]
    )


def _check_with_openssl(tls: Tls, settings: Mapping[str, str]) -> None:
    """Check the TLS files here, because gRPC reports invalid files only as an unreachable
    server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_file is not None:
        try:
            context.load_verify_locations(tls.ca_file)
        except ssl.SSLError:
            raise ValueError(
                f"{settings['ca_file']} {str(tls.ca_file)!r} does not contain a PEM certificate"
            ) from None
    if tls.certificate_file is not None and tls.key_file is not None:
        try:
            context.load_cert_chain(tls.certificate_file, tls.key_file, password=_no_password)
        except ssl.SSLError as error:
            certificate = f"{settings['certificate_file']} {str(tls.certificate_file)!r}"
            key = f"{settings['key_file']} {str(tls.key_file)!r}"
            if error.reason == "KEY_VALUES_MISMATCH":
                raise ValueError(
                    f"{certificate} and {key} do not match: use the private key of this certificate"
                ) from None
            raise ValueError(
                f"{certificate} must hold a PEM certificate, and {key} its private key without a"
                " passphrase"
            ) from None


def _no_password() -> bytes:
    """Return an empty password, so that OpenSSL does not prompt for one."""
    return b""
