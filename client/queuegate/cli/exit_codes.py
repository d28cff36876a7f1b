"""Exit statuses, and the messages for failures."""

from enum import IntEnum
from typing import Final

from queuegate.exceptions import (
    DeadlineExceeded,
    GroupsUnavailable,
    InvalidArgument,
    NotPermitted,
    QueuegateError,
    RequestRejected,
    ServerUnavailable,
)

_ARGUMENTS: Final = {"user.user": "user name", "user": "user name"}
"""Names of request fields on the command line."""


class Exit(IntEnum):
    """The exit statuses of the command."""

    OK = 0
    NO = 1
    WRONG = 2
    NO_ANSWER = 3
    INTERRUPTED = 130
    """The status that shells report for a process that SIGINT ended."""
    BROKEN_PIPE = 141
    """The same for SIGPIPE."""


def failure(error: Exception) -> tuple[str, Exit]:
    """Return a message with the remedy, and the exit status, which is never that of an answer."""
    match error:
        case RequestRejected():
            return _with_remedy(error), Exit.WRONG
        case QueuegateError():
            return _with_remedy(error), Exit.NO_ANSWER
        case ValueError():
            return str(error), Exit.WRONG
        case OSError() if error.filename is not None:
            return f"cannot read {error.filename}: {error.strerror}", Exit.WRONG
    return f"unexpected {type(error).__name__}: {error}", Exit.NO_ANSWER


def _with_remedy(error: QueuegateError) -> str:
    match error:
        case InvalidArgument() if error.violations:
            return "; ".join(
                f"{_ARGUMENTS.get(field, field)}: {text}" for field, text in error.violations
            )
        case NotPermitted() if error.code == "UNAUTHENTICATED":
            return (
                f"{error.message}: present a token (--token-file) or a certificate (--tls-cert,"
                " --tls-key)"
            )
        case ServerUnavailable() if not error.reason:
            return f"{error.message}: {_connection_remedy(error.message)}"
        case DeadlineExceeded():
            return f"{error.message}: allow more time with --timeout"
        case GroupsUnavailable() if error.retry_after is not None:
            return f"{error.message}; try again in {error.retry_after:g} s"
    return error.message


def _connection_remedy(message: str) -> str:
    # gRPC reports only in words whether a server was there and closed the connection.
    why = message.rpartition("(")[2].lower()
    if any(sign in why for sign in ("socket closed", "handshake", "ssl", "tls")):
        return (
            "the server may require TLS (--tls-ca), a certificate (--tls-cert, --tls-key) or"
            " another server name (--tls-server-name)"
        )
    return (
        "start one with `queuegate-server serve` (in a checkout: `make serve`), or give its address"
        " with --address or QUEUEGATE_ADDRESS"
    )
