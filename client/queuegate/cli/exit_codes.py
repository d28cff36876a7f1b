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
                f"{error.message}: give a token that the server knows (--token-file) or a"
                " certificate (--tls-cert, --tls-key)"
            )
        case ServerUnavailable() if error.message.startswith("no server at "):
            return (
                f"{error.message}: start one with `queuegate-server serve` (in a checkout:"
                " `make serve`), or give its address with --address or QUEUEGATE_ADDRESS"
            )
        case DeadlineExceeded():
            return f"{error.message}: allow more time with --timeout"
        case GroupsUnavailable() if error.retry_after is not None:
            seconds = max(0.1, round(error.retry_after, 1))
            return f"{error.message}; try again in {seconds:g} s"
    return error.message
