"""What a command reports if it fails: the exit status, and a message with a remedy."""

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
    DeadlineExceeded,
    GroupsUnavailable,
    InvalidArgument,
    NotPermitted,
    QueuegateError,
    RequestRejected,
    ServerUnavailable,
    Unavailable,
)

INVALID_CONFIGURATION: Final = "INVALID_CONFIGURATION"
# These two errors differ from other errors of the same type only in their messages.
_NO_SERVER: Final = "no server at "
"""The beginning of the client's message if nothing listens at the address."""
_NO_PARTITIONS: Final = "no partitions"
"""The end of the server's message if the policy has no partitions to choose from."""


class Exit(IntEnum):
    """The command's exit statuses."""

    OK = 0
    """Access is allowed, or the command succeeded."""
    NO = 1
    """Access is denied, or the answer is otherwise negative."""
    WRONG = 2
    """Incorrect usage or configuration."""
    NO_ANSWER = 3
    """No answer, or an incomplete one."""
    INTERRUPTED = 130
    """The status reported by shells for a process killed by SIGINT."""
    BROKEN_PIPE = 141
    """The status reported by shells for a process killed by SIGPIPE."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A command's failure."""

    status: Exit
    """The exit status, never OK."""
    reason: str
    """The machine-readable reason: a value of the contract's `ErrorReason`, the name of a gRPC
    status, or `WRONG_USAGE`, `CANNOT_READ`, `INVALID_CONFIGURATION`, `SERVICE_UNKNOWN`,
    `INCOMPLETE`, `STALE_GATES`, `FLEET_DISAGREES`, `NO_FLEET`, `REDIS_UNAVAILABLE` or
    `UNEXPECTED`.
    """
    message: str
    """The message, with a remedy."""
    retry_after: int | None = None
    """The server's suggested delay before a retry, in whole seconds."""


def problem_of(error: Exception, question: Mapping[str, Any]) -> Problem:
    """Convert an exception to a Problem. `question` contains the command's arguments by name."""
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
    """Return an exception's message in command-line terms, with a remedy."""
    match error:
        case InvalidArgument() if error.violations:
            return violations_in_command_words(error.violations, question)
        case NotPermitted() if error.code == "UNAUTHENTICATED":
            return (
                f"{error.message}: pass a token that the server knows (--token-file) or a"
                " certificate (--tls-cert, --tls-key)"
            )
        case ServerUnavailable() if error.message.startswith(_NO_SERVER):
            return (
                f"{error.message}: start one with `queuegate-server serve` (in a checkout:"
                " `make serve`), or set its address with --address or QUEUEGATE_ADDRESS"
            )
        case DeadlineExceeded():
            return f"{error.message}: allow more time with --timeout"
        case GroupsUnavailable() if (seconds := _retry_after(error)) is not None:
            return f"{error.message}; try again in {seconds} s"
    # Configuration errors refer to settings. Do not translate the settings' names to options.
    is_of_file = error.reason == INVALID_CONFIGURATION
    message = error.message if is_of_file else in_command_words(error.message)
    can_choose = error.reason == "UNKNOWN_PARTITION" and not message.endswith(_NO_PARTITIONS)
    return f"{message}; choose one with --partition" if can_choose else message


def _retry_after(error: QueuegateError) -> int | None:
    """Return the server's suggested delay in whole seconds, at least 1; None if there is none."""
    if not isinstance(error, Unavailable) or error.retry_after is None:
        return None
    return max(1, ceil(error.retry_after))
