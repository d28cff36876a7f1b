"""What both clients hand to gRPC when they open a channel."""

import json
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from queuegate import _validation
from queuegate._address import Address, parse
from queuegate._settings import (
    FilePath,
    Retry,
    Tls,
    tls_from_environment,
    token_file_from_environment,
)
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2

MAX_RECEIVE_BYTES: Final = 64 * 1024 * 1024
"""A full batch whose answers name long queues, or a policy with very many of them."""

_SERVICES: Final = [
    service.full_name
    for file in (access_pb2.DESCRIPTOR, user_groups_pb2.DESCRIPTOR, policy_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
]

_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    # A message that does not fit into this buffer is sent just once.
    ("grpc.per_rpc_retry_buffer_size", 5 * 1024 * 1024),
    # Servers drop a client that pings more often than every 5 minutes. The timeout
    # works without pings too, as the time within which the peer's kernel must confirm
    # what was sent: a connection to a dead machine is given up after it.
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # A restarted sidecar is found within 2 seconds; gRPC would wait up to 2 minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A proxy of the environment is for the web, not for a server on loopback.
    ("grpc.enable_http_proxy", 0),
]


TOKEN_CHECK_SECONDS: Final = 1.0
MAX_TOKEN_BYTES: Final = 4096

Metadata = tuple[tuple[str, str], ...]


class BearerToken:
    """A token that is read again when its file changes, at most once a second.

    Any number of threads may use it.
    """

    def __init__(self, path: FilePath, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the file. Raises OSError, and ValueError if it holds no token."""
        self._path = Path(path)
        self._clock = clock
        self._metadata = self._read()
        self._look_at = clock() + TOKEN_CHECK_SECONDS

    @property
    def metadata(self) -> Metadata:
        """What a call brings along: the token of the file, or the last one that it held."""
        if self._clock() >= self._look_at:
            self._look_at = self._clock() + TOKEN_CHECK_SECONDS
            with suppress(OSError, ValueError):
                self._metadata = self._read()
        return self._metadata

    def _read(self) -> Metadata:
        with self._path.open("rb") as opened:
            content = opened.read(MAX_TOKEN_BYTES + 1)
        token = content.decode("ascii", "replace").strip()
        # Never repeated in the message: it may be a secret all the same.
        if (
            not token
            or len(content) > MAX_TOKEN_BYTES
            or not all("!" <= sign <= "~" for sign in token)
        ):
            raise ValueError(f"token_file {str(self._path)!r} does not hold one token in ASCII")
        return (("authorization", f"Bearer {token}"),)


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    """All that a channel is opened with."""

    address: Address
    credentials: grpc.ChannelCredentials | None
    """None: plaintext."""
    options: list[tuple[str, Any]]
    timeout: float
    """The time limit in seconds of calls that name none."""
    token: BearerToken | None = None

    @property
    def metadata(self) -> Metadata | None:
        """What each call brings along."""
        return None if self.token is None else self.token.metadata


def plan(
    address: str | None,
    timeout: float,
    tls: Tls | None,
    retry: Retry,
    token_file: FilePath | None = None,
) -> ChannelPlan:
    """Check the arguments of a client.

    Raises TypeError, ValueError, and OSError for a file that cannot be read.
    """
    for name, value, expected in (("tls", tls, Tls | None), ("retry", retry, Retry)):
        if not isinstance(value, expected):
            raise TypeError(f"{name} must be a queuegate.{name.title()}, not {value!r}")
    parsed = parse(address)
    if tls is None and not parsed.is_unix:
        tls = tls_from_environment()
    if token_file is None:
        token_file = token_file_from_environment()
    if token_file is not None and tls is None and not parsed.is_local:
        raise ValueError(
            f"the token is not sent to {parsed.text} without encryption: give tls"
            " (--tls-ca, QUEUEGATE_CA_FILE)"
        )
    options = [*_OPTIONS, *_retry_options(retry)]
    if tls is not None and tls.server_name is not None:
        options += [
            ("grpc.ssl_target_name_override", tls.server_name),
            ("grpc.default_authority", tls.server_name),
        ]
    return ChannelPlan(
        parsed,
        None if tls is None else _credentials(tls),
        options,
        _validation.seconds("timeout", timeout),
        None if token_file is None else BearerToken(token_file),
    )


def _retry_options(retry: Retry) -> list[tuple[str, Any]]:
    if retry.attempts == 1:
        # gRPC still resends a call that the server never saw, for example when the server has
        # just told an old connection to go. "grpc.enable_retries": 0 would lose that call.
        return []
    policy = {
        "maxAttempts": retry.attempts,
        "initialBackoff": f"{retry.initial_backoff:.3f}s",
        "maxBackoff": f"{retry.max_backoff:.3f}s",
        "backoffMultiplier": 2,
        # CANCELLED: what gRPC makes of a call that reaches a server as it ends.
        "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
    }
    config = {
        "methodConfig": [
            {"name": [{"service": name} for name in _SERVICES], "retryPolicy": policy}
        ],
        # Half of the tokens may be lost, one for each failed attempt, before retries
        # pause; each success gives one tenth back.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.1},
    }
    return [("grpc.service_config", json.dumps(config))]


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    authorities, key, certificate = (
        None if file is None else Path(file).read_bytes()
        for file in (tls.ca_file, tls.key_file, tls.certificate_file)
    )
    _check_with_openssl(tls)
    return grpc.ssl_channel_credentials(authorities, key, certificate)


def _check_with_openssl(tls: Tls) -> None:
    """Find now what gRPC would report at the first call as an unreachable server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_file is not None:
        try:
            context.load_verify_locations(tls.ca_file)
        except ssl.SSLError:
            raise ValueError(f"ca_file {str(tls.ca_file)!r} has no PEM certificate") from None
    if tls.certificate_file is not None and tls.key_file is not None:
        try:
            context.load_cert_chain(tls.certificate_file, tls.key_file, password=_no_password)
        except ssl.SSLError:
            raise ValueError(
                f"certificate_file {str(tls.certificate_file)!r} and key_file are not a PEM"
                " certificate and its key without a passphrase"
            ) from None


def _no_password() -> bytes:
    """Keep OpenSSL from asking on the terminal."""
    return b""
