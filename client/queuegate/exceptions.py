"""What can go wrong with a call, as one tree.

    QueuegateError
    ├── RequestRejected          asking the same again cannot help
    │   ├── InvalidArgument      a field is missing or malformed
    │   ├── UnknownPartition     the policy has no such partition
    │   ├── NotPermitted         this caller may not ask that
    │   └── MessageTooLarge      the request, or its answer, is over a size limit
    ├── CouldNotAsk              no answer now: grant nothing, ask again later
    │   ├── ServerUnavailable    the server cannot be reached or is not ready
    │   ├── GroupsUnavailable    the server could not learn the user's groups
    │   ├── DeadlineExceeded     no answer in time
    │   └── Overloaded           too much work at once
    └── ServerError              a fault of the server, or not a queuegate server

None of them means "denied": that is an answer, never an error. Arguments that
cannot be right (a wrong type, an empty user name, an unknown kind of access) raise
TypeError or ValueError before anything is sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = [
    "CouldNotAsk",
    "DeadlineExceeded",
    "GroupsUnavailable",
    "InvalidArgument",
    "MessageTooLarge",
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
    """A field of a request that the server refused."""

    field: str
    """The path of the field from the request, for example `user.groups[3]`."""
    description: str
    """What is wrong with it."""


class QueuegateError(Exception):
    """The root of the tree: catch it to catch all that a call can end with.

    Attributes:
        message: What happened, for people.
        code: The name of the gRPC status code, for example `UNAVAILABLE`.
        reason: The server's reason, for programs, as in the contract's `ErrorReason`
            without its prefix (`RESOLVER_UNAVAILABLE`); empty if the server gave none,
            for example because it was not reached.
    """

    def __init__(self, message: str, *, code: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason


class RequestRejected(QueuegateError):
    """Asking the same again cannot help: the request or the policy must change."""


class InvalidArgument(RequestRejected):
    """A field of the request is missing or malformed.

    Attributes:
        violations: Each refused field and what is wrong with it.
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
    """The server does not let this caller ask that: it does not know the caller (`code` is
    `UNAUTHENTICATED`), or the caller has not the role (`PERMISSION_DENIED`).
    """


class MessageTooLarge(RequestRejected):
    """The request is larger than the server's `limits.max_message`, or the answer is larger
    than the client accepts (64 MiB): ask for less at once.
    """


class CouldNotAsk(QueuegateError):
    """There is no answer now. Grant nothing; the same question may be answered later.

    Attributes:
        retry_after: After how many seconds the server expects to answer; None if it
            did not say.
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
    """The server cannot be reached, has no policy yet (`reason` is `NOT_READY`), ends
    (`DRAINING`), or the client was closed during the call (`code` is `CANCELLED`).
    """


class GroupsUnavailable(CouldNotAsk):
    """The answer depends on the user's groups, and the server could not learn them."""


class DeadlineExceeded(CouldNotAsk):
    """There was no answer within the time limit of the call."""


class Overloaded(CouldNotAsk):
    """The server has too much work at once, or this caller asks more often than it may
    (`reason` is `RATE_LIMITED`).
    """


class ServerError(QueuegateError):
    """The server failed (its message has the id that its log has too), or answered as
    no queuegate server does.
    """
