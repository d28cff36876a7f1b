"""Exceptions raised by calls.

    QueuegateError
    ├── RequestRejected          a retry of the same request cannot succeed
    │   ├── InvalidArgument      a field is missing or malformed
    │   ├── UnknownPartition     the policy has no such partition
    │   ├── NotPermitted         the caller is not authenticated or not authorized
    │   └── MessageTooLarge      the request or the response exceeds a size limit
    ├── Unavailable              no decision now: do not grant access, and retry later
    │   ├── ServerUnavailable    the server cannot be reached or is not ready
    │   │   └── NotCaughtUp      the server has not applied the change in `at_least`
    │   ├── ClientClosed         the client was closed before or during the call
    │   ├── GroupsUnavailable    the server could not resolve the user's groups
    │   ├── DeadlineExceeded     no response within the time limit
    │   └── Overloaded           the server is overloaded, or a rate limit was exceeded
    └── ServerError              the server failed, or is not a queuegate server

A denial is a decision, not an exception. An argument of the wrong type raises TypeError. An invalid
argument, such as an empty user name, raises InvalidArgument, whether the client or the server
detects it. InvalidArgument is also a ValueError.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "ClientClosed",
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
    "Unavailable",
    "UnknownPartition",
    "Violation",
]


class Violation(NamedTuple):
    """A rejected field or argument."""

    field: str
    """The field's path in the request, for example `user.groups[3]`. If the client detected the
    fault, this is the argument, for example `groups[3]`.
    """
    description: str
    """Why the value is invalid."""


class QueuegateError(Exception):
    """The base class of exceptions raised by calls.

    Attributes:
        message: A description of the failure.
        code: The name of the gRPC status code, for example `UNAVAILABLE`.
        reason: The server's machine-readable reason: a value of the contract's `ErrorReason`
            without its prefix, for example `RESOLVER_UNAVAILABLE`. Empty if the server gave no
            reason, for example because it could not be reached.

    Example:
        >>> try:
        ...     client.check("sue", "root.sandbox", partition="none")
        ... except queuegate.Unavailable as error:
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
    """A retry cannot succeed unless the request, the caller's rights or the policy change."""


class InvalidArgument(RequestRejected, ValueError):
    """A field of the request is missing or malformed.

    The client detects values that can never be sent; the server validates everything else.

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
    """The request exceeds the server's `limits.max_message`, a check exceeds 4 MiB, or the response
    exceeds the client's limit of 64 MiB. Split the request.
    """


class Unavailable(QueuegateError):
    """No decision is available now. Do not grant access; a retry may succeed.

    Attributes:
        retry_after: The server's suggested delay before a retry, in seconds, if any.
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


class ServerUnavailable(Unavailable):
    """The server cannot be reached, has no policy yet (`reason` is `NOT_READY`) or is shutting
    down (`DRAINING`).
    """


class NotCaughtUp(ServerUnavailable):
    """The server has not applied the change identified by `at_least`. The change was made on
    another server, or on this server before a restart.
    """


class ClientClosed(Unavailable):
    """The client or gate was closed before or during the call."""


class GroupsUnavailable(Unavailable):
    """The decision depends on the user's groups, but the server could not resolve them."""


class DeadlineExceeded(Unavailable):
    """The server did not respond within the call's time limit."""


class Overloaded(Unavailable):
    """The server is overloaded, or the caller has exceeded its rate limit (`reason` is
    `RATE_LIMITED`).
    """


class ServerError(QueuegateError):
    """The server failed, or its response violates the contract. If the server failed, the message
    contains the ID of its log entry.
    """
