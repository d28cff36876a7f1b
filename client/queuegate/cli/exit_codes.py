"""Exit statuses, and the messages for failures."""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import Final

from queuegate.exceptions import (
    CouldNotAsk,
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


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no answer."""

    status: Exit
    """Never that of an answer."""
    reason: str
    """For programs: a value of the contract's `ErrorReason`, the name of a gRPC status, or
    `WRONG_USAGE`, `CANNOT_READ`, `INVALID_CONFIGURATION`, `SERVICE_UNKNOWN`, `INCOMPLETE`,
    `FLEET_DISAGREES`, `NO_FLEET`, `REDIS_UNAVAILABLE` and `UNEXPECTED`.
    """
    message: str
    """For people, with the remedy."""
    retry_after: int | None = None
    """The whole seconds after which the server suggests a retry."""


def problem_of(error: Exception) -> Problem:
    """Return how to report an exception."""
    match error:
        case QueuegateError():
            status = Exit.WRONG if isinstance(error, RequestRejected) else Exit.NO_ANSWER
            reason = error.reason or error.code
            return Problem(status, reason, _with_remedy(error), _retry_after(error))
        case ValueError():
            return Problem(Exit.WRONG, "WRONG_USAGE", str(error))
        case OSError() if error.filename is not None:
            message = f"cannot read {error.filename}: {error.strerror}"
            return Problem(Exit.WRONG, "CANNOT_READ", message)
    message = f"unexpected {type(error).__name__}: {error}"
    return Problem(Exit.NO_ANSWER, "UNEXPECTED", message)


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
        case GroupsUnavailable() if (seconds := _retry_after(error)) is not None:
            return f"{error.message}; try again in {seconds} s"
    return error.message


def _retry_after(error: QueuegateError) -> int | None:
    if not isinstance(error, CouldNotAsk) or error.retry_after is None:
        return None
    return max(1, ceil(error.retry_after))
