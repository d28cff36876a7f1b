"""Exit statuses, and what is said when there is no answer."""

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
"""What fields of requests are called on the command line."""


class Exit(IntEnum):
    """What the process ends with, so that scripts can tell."""

    OK = 0
    NO = 1
    WRONG = 2
    NO_ANSWER = 3
    INTERRUPTED = 130
    """What shells report for a process that SIGINT ended."""
    BROKEN_PIPE = 141
    """And SIGPIPE."""


def failure(error: Exception) -> tuple[str, Exit]:
    """Return what went wrong, what to do about it, and the exit status: never one that
    scripts take for an answer.
    """
    match error:
        case RequestRejected():
            return _remedied(error), Exit.WRONG
        case QueuegateError():
            return _remedied(error), Exit.NO_ANSWER
        case ValueError():
            return str(error), Exit.WRONG
        case OSError() if error.filename is not None:
            return f"cannot read {error.filename}: {error.strerror}", Exit.WRONG
    return f"unexpected {type(error).__name__}: {error}", Exit.NO_ANSWER


def _remedied(error: QueuegateError) -> str:
    match error:
        case InvalidArgument() if error.violations:
            return "; ".join(
                f"{_ARGUMENTS.get(field, field)}: {text}" for field, text in error.violations
            )
        case NotPermitted() if error.code == "UNAUTHENTICATED":
            return (
                f"{error.message}: show a token (--token-file) or a certificate (--tls-cert,"
                " --tls-key)"
            )
        case ServerUnavailable() if not error.reason:
            return f"{error.message}: {_how_to_reach_it(error.message)}"
        case DeadlineExceeded():
            return f"{error.message}: give it more time with --timeout"
        case GroupsUnavailable() if error.retry_after is not None:
            return f"{error.message}; try again in {error.retry_after:g} s"
    return error.message


def _how_to_reach_it(message: str) -> str:
    # Whether somebody was there and ended the connection, gRPC tells in words only.
    why = message.rpartition("(")[2].lower()
    if any(sign in why for sign in ("socket closed", "handshake", "ssl", "tls")):
        return (
            "is it TLS that it wants (--tls-ca), a certificate (--tls-cert, --tls-key), or another"
            " name for it (--tls-server-name)?"
        )
    return (
        "start one with `queuegate-server serve` (in a checkout: `make serve`), or say where it is"
        " with --address or QUEUEGATE_ADDRESS"
    )
