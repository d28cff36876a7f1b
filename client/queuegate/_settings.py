"""A client's connection and retry settings, from arguments or the environment."""

import os
from dataclasses import dataclass, field
from typing import Final, TypeAlias

FilePath: TypeAlias = str | os.PathLike[str]

MAX_ATTEMPTS: Final = 5
"""The maximum number of attempts. Larger numbers are rejected, because gRPC would silently cap
them.
"""

CA_FILE: Final = "QUEUEGATE_CA_FILE"
CERTIFICATE_FILE: Final = "QUEUEGATE_CERTIFICATE_FILE"
KEY_FILE: Final = "QUEUEGATE_KEY_FILE"
SERVER_NAME: Final = "QUEUEGATE_SERVER_NAME"
TOKEN_FILE: Final = "QUEUEGATE_TOKEN_FILE"  # noqa: S105 - the name of a variable
TLS_VARIABLES: Final = {
    "ca_file": CA_FILE,
    "certificate_file": CERTIFICATE_FILE,
    "key_file": KEY_FILE,
}
"""The environment variables for the file fields of `Tls`."""


BACKOFF_RANGE_SECONDS: Final = (0.01, 60.0)
"""The accepted range of backoffs. The minimum is above 1 ms, because gRPC 1.85 never retries with a
backoff of 1 ms or less.
"""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings. The files are in PEM format and are read once, when the client is created.

    Raises:
        ValueError: Only one of `certificate_file` and `key_file` is set.

    Example:
        >>> queuegate.Tls(ca_file="ca.pem", server_name="queuegate.example.com")
        Tls(ca_file='ca.pem', certificate_file=None, server_name='queuegate.example.com')
    """

    ca_file: FilePath | None = None
    """The trusted certificate authorities. Defaults to gRPC's built-in list."""
    certificate_file: FilePath | None = None
    """The client certificate and its chain, for a server that requires mTLS."""
    key_file: FilePath | None = field(default=None, repr=False)
    """The client certificate's private key, without a passphrase."""
    server_name: str | None = None
    """The name in the server's certificate, if it differs from the address."""

    def __post_init__(self) -> None:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("certificate_file and key_file must be given together")
        if self.server_name is not None and not self.server_name:
            raise ValueError("server_name must not be empty")


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy for calls that fail with UNAVAILABLE, or with CANCELLED because the server
    is shutting down. All calls are idempotent, so retries are safe.

    Retries use exponential backoff with jitter, within the call's time limit, and respect a delay
    requested by the server (`grpc-retry-pushback-ms`). Retries pause while most calls fail.

    Raises:
        ValueError: A value is out of range.

    Example:
        >>> with queuegate.Client(retry=queuegate.Retry(attempts=1)) as client:  # never retry
        ...     client.check("sue", "root.sandbox").allowed
        True
    """

    attempts: int = 4
    """The maximum number of attempts, from 1 (no retries) to 5."""
    initial_backoff: float = 0.05
    """The delay before the second attempt in seconds, doubled for each subsequent attempt."""
    max_backoff: float = 0.5
    """The maximum backoff in seconds."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"attempts must be 1 to {MAX_ATTEMPTS}, not {self.attempts!r}")
        low, high = BACKOFF_RANGE_SECONDS
        if not low <= self.initial_backoff <= self.max_backoff <= high:
            raise ValueError(
                f"initial_backoff and max_backoff must be {low:g} to {high:g} seconds, and"
                " initial_backoff must not exceed max_backoff"
            )


DEFAULT_RETRY: Final = Retry()


def tls_from_environment() -> Tls | None:
    """Return the TLS settings from the environment, or None if none are set. Raises ValueError if
    they are invalid.
    """
    values = [
        os.environ.get(name) or None for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE, SERVER_NAME)
    ]
    if not any(values):
        return None
    ca_file, certificate_file, key_file, server_name = values
    if (certificate_file is None) != (key_file is None):
        raise ValueError(f"{CERTIFICATE_FILE} and {KEY_FILE} must be set together")
    return Tls(ca_file, certificate_file, key_file, server_name)


def token_file_from_environment() -> str | None:
    """Return the token file's path from the environment, or None if it is not set."""
    return os.environ.get(TOKEN_FILE) or None
