"""How a client connects and tries again: value objects that callers make."""

import os
from dataclasses import dataclass, field
from typing import Final, TypeAlias

FilePath: TypeAlias = str | os.PathLike[str]

_MOST_ATTEMPTS: Final = 5
"""More than this gRPC silently reduces to this."""

CA_FILE: Final = "QUEUEGATE_CA_FILE"
CERTIFICATE_FILE: Final = "QUEUEGATE_CERTIFICATE_FILE"
KEY_FILE: Final = "QUEUEGATE_KEY_FILE"
SERVER_NAME: Final = "QUEUEGATE_SERVER_NAME"
TOKEN_FILE: Final = "QUEUEGATE_TOKEN_FILE"  # noqa: S105 - the name of a variable


_BACKOFF_SECONDS: Final = (0.01, 60.0)
"""With 1 ms gRPC 1.85 never makes the second attempt."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Connect with TLS. The files are PEM, and read once, when the client is made.

    Raises ValueError if just one of certificate and key is given.
    """

    ca_file: FilePath | None = None
    """The authorities to trust for the server. None: those that gRPC brings along."""
    certificate_file: FilePath | None = None
    """Our certificate and its chain, if the server asks for one (mTLS)."""
    key_file: FilePath | None = field(default=None, repr=False)
    """The private key of our certificate, without a passphrase."""
    server_name: str | None = None
    """The name to expect in the server's certificate, if it is not the address's host."""

    def __post_init__(self) -> None:
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("a certificate needs its key: give certificate_file and key_file")
        if self.server_name is not None and not self.server_name:
            raise ValueError("server_name must not be empty")


@dataclass(frozen=True, slots=True)
class Retry:
    """Try a call again that ended with UNAVAILABLE, or with CANCELLED by a server that was
    about to end, and with nothing else, within its time limit. All calls are idempotent,
    so trying again never harms.

    The wait before an attempt is chosen at random around the backoff. A server that
    names a time (`grpc-retry-pushback-ms`) is obeyed. If most calls fail, no call is
    tried again until some succeed.

    Raises ValueError for values that make no sense.
    """

    attempts: int = 4
    """How often a call is tried at most, 1 (never again) to 5."""
    initial_backoff: float = 0.05
    """Seconds before the second attempt; each further wait is twice as long."""
    max_backoff: float = 0.5
    """The longest wait in seconds."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= _MOST_ATTEMPTS:
            raise ValueError(f"attempts must be 1 to {_MOST_ATTEMPTS}, not {self.attempts!r}")
        low, high = _BACKOFF_SECONDS
        if not low <= self.initial_backoff <= self.max_backoff <= high:
            raise ValueError(
                f"backoff must be {low:g} to {high:g} seconds, and initial_backoff at most"
                " max_backoff"
            )


DEFAULT_RETRY: Final = Retry()


def tls_from_environment() -> Tls | None:
    """Return the TLS settings of the environment, if there are any. Raises ValueError."""
    values = [
        os.environ.get(name) or None for name in (CA_FILE, CERTIFICATE_FILE, KEY_FILE, SERVER_NAME)
    ]
    if not any(values):
        return None
    ca_file, certificate_file, key_file, server_name = values
    if (certificate_file is None) != (key_file is None):
        raise ValueError(f"{CERTIFICATE_FILE} and {KEY_FILE} belong together")
    return Tls(ca_file, certificate_file, key_file, server_name)


def token_file_from_environment() -> str | None:
    """Return the path of the token file of the environment, if there is one."""
    return os.environ.get(TOKEN_FILE) or None
