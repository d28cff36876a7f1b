"""Exit statuses, and the messages for failures."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import Any, Final

from queuegate.cli.wording import (
    argument_in_command_words,
    in_command_words,
    violations_in_command_words,
)
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

INVALID_CONFIGURATION: Final = "INVALID_CONFIGURATION"


class Exit(IntEnum):
    """The exit statuses of the command."""

    OK = 0
    NO = 1
    WRONG = 2
    NO_ANSWER = 3
    INTERRUPTED = 130
    """The status that shells report for a process ended by SIGINT."""
    BROKEN_PIPE = 141
    """The status that shells report for a process ended by SIGPIPE."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no answer."""

    status: Exit
    """Differs from the statuses of answers."""
    reason: str
    """The reason for programs: a value of the contract's `ErrorReason`, the name of a gRPC status,
    or `WRONG_USAGE`, `CANNOT_READ`, `INVALID_CONFIGURATION`, `SERVICE_UNKNOWN`, `INCOMPLETE`,
    `FLEET_DISAGREES`, `NO_FLEET`, `REDIS_UNAVAILABLE` and `UNEXPECTED`.
    """
    message: str
    """The message for people, with the remedy."""
    retry_after: int | None = None
    """The whole seconds after which the server suggests a retry."""


def problem_of(error: Exception, question: Mapping[str, Any]) -> Problem:
    """Return the failure for an exception, given the arguments of the command by name."""
    match error:
        case QueuegateError():
            status = Exit.WRONG if isinstance(error, RequestRejected) else Exit.NO_ANSWER
            reason = error.reason or error.code
            message = _with_remedy(error, question)
            return Problem(status, reason, message, _retry_after(error))
        case ValueError():
            return Problem(Exit.WRONG, "WRONG_USAGE", argument_in_command_words(str(error)))
        case OSError() if error.filename is not None:
            message = f"cannot read {error.filename}: {in_command_words(error.strerror or '')}"
            return Problem(Exit.WRONG, "CANNOT_READ", message)
    message = f"unexpected {type(error).__name__}: {error}"
    return Problem(Exit.NO_ANSWER, "UNEXPECTED", message)


def _with_remedy(error: QueuegateError, question: Mapping[str, Any]) -> str:
    match error:
        case InvalidArgument() if error.violations:
            return violations_in_command_words(error.violations, question)
        case NotPermitted() if error.code == "UNAUTHENTICATED":
            return (
                f"{error.message}: pass a token that the server knows (--token-file) or a"
                " certificate (--tls-cert, --tls-key)"
            )
        case ServerUnavailable() if error.message.startswith("no server at "):
            return (
                f"{error.message}: start one with `queuegate-server serve` (in a checkout:"
                " `make serve`), or set its address with --address or QUEUEGATE_ADDRESS"
            )
        case DeadlineExceeded():
            return f"{error.message}: allow more time with --timeout"
        case GroupsUnavailable() if (seconds := _retry_after(error)) is not None:
            return f"{error.message}; try again in {seconds} s"
    # Errors in settings contain their keys, which are not terms of the Python client.
    is_of_file = error.reason == INVALID_CONFIGURATION
    return error.message if is_of_file else in_command_words(error.message)


def _retry_after(error: QueuegateError) -> int | None:
    if not isinstance(error, CouldNotAsk) or error.retry_after is None:
        return None
    return max(1, ceil(error.retry_after))
