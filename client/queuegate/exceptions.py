"""The exceptions that calls raise.

    QueuegateError
    ├── RequestRejected          repeating the request cannot help
    │   ├── InvalidArgument      a field is missing or malformed
    │   ├── UnknownPartition     the policy has no such partition
    │   ├── NotPermitted         the caller is not authenticated or not authorized
    │   └── MessageTooLarge      the request or the response exceeds a size limit
    ├── CouldNotAsk              no answer now: grant nothing, and ask again later
    │   ├── ServerUnavailable    the server cannot be reached or is not ready
    │   │   └── NotCaughtUp      the server does not know the change in `at_least`
    │   ├── ClientClosed         the client was closed before or during the call
    │   ├── GroupsUnavailable    the server could not resolve the user's groups
    │   ├── DeadlineExceeded     no answer in time
    │   └── Overloaded           the server is overloaded, or a rate limit is exceeded
    └── ServerError              the server failed, or is not a queuegate server

None of them means "denied", which is an answer. An argument of the wrong type raises TypeError. An
invalid argument, such as an empty user name, raises InvalidArgument, which is also a ValueError,
whether the client or the server detects it.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "ClientClosed",
    "CouldNotAsk",
    "DeadlineExceeded",
    "GroupsUnavailable",
    "InvalidArgument",
    "MessageTooLarge",
    "NotCaughtUp",
    "NotPermitted",
    "Overloaded",
    "QueuegateError",
    "RequestRejected",
    "ServerError",
    "ServerUnavailable",
    "UnknownPartition",
    "Violation",
]


class Violation(NamedTuple):
    """A field that was rejected."""

    field: str
    """The path of the field in the request, for example `user.groups[3]`; from the client itself,
    the argument, for example `groups[3]`."""
    description: str
    """A description of the fault."""


class QueuegateError(Exception):
    """The base class of all exceptions that calls raise.

    Attributes:
        message: A description of the failure, for people.
        code: The name of the gRPC status code, for example `UNAVAILABLE`.
        reason: The server's reason, for programs: a value of the contract's `ErrorReason`
            without its prefix (`RESOLVER_UNAVAILABLE`). Empty if there is none, for example
            because the server could not be reached.

    Example:
        >>> try:
        ...     client.check("sue", "root.sandbox", partition="none")
        ... except queuegate.CouldNotAsk as error:
        ...     print("wait", error.retry_after or 1)
        ... except queuegate.QueuegateError as error:
        ...     print(error.code, error.reason)
        NOT_FOUND UNKNOWN_PARTITION
    """

    def __init__(self, message: str, *, code: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason


class RequestRejected(QueuegateError):
    """Repeating the request cannot help: the request, the caller or the policy must change."""


class InvalidArgument(RequestRejected, ValueError):
    """A field of the request is missing or malformed. The client itself raises this exception for
    values that it can never send; the server checks all other fields.

    Attributes:
        violations: The rejected fields.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        violations: Sequence[Violation] = (),
    ) -> None:
        super().__init__(message, code=code, reason=reason)
        self.violations = list(violations)


class UnknownPartition(RequestRejected):
    """The policy has no such partition."""


class NotPermitted(RequestRejected):
    """The caller is not authenticated (`code` is `UNAUTHENTICATED`) or lacks the required role
    (`PERMISSION_DENIED`).
    """


class MessageTooLarge(RequestRejected):
    """The request exceeds the server's `limits.max_message`, a question exceeds 4 MiB, or the
    response exceeds the client's limit of 64 MiB: ask for less at once.
    """


class CouldNotAsk(QueuegateError):
    """There is no answer now. Grant nothing; the same request may succeed later.

    Attributes:
        retry_after: The seconds after which the server suggests a retry; None if it does not.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, reason=reason)
        self.retry_after = retry_after


class ServerUnavailable(CouldNotAsk):
    """The server cannot be reached, has no policy yet (`reason` is `NOT_READY`) or is shutting
    down (`DRAINING`).
    """


class NotCaughtUp(ServerUnavailable):
    """The server does not know the change in `at_least`: another server reported it, or this one
    did before it was restarted.
    """


class ClientClosed(CouldNotAsk):
    """The client or gate was closed before or during the call."""


class GroupsUnavailable(CouldNotAsk):
    """The answer depends on the user's groups, and the server could not resolve them."""


class DeadlineExceeded(CouldNotAsk):
    """There was no answer within the time limit of the call."""


class Overloaded(CouldNotAsk):
    """The server is overloaded, or the caller exceeds its rate limit (`reason` is
    `RATE_LIMITED`).
    """


class ServerError(QueuegateError):
    """The server failed (the message contains the ID under which it logged the failure), or its
    response violates the contract.
    """
