"""Maps domain errors to gRPC statuses.

Each status carries a `google.rpc.ErrorInfo` (domain `queuegate`, reason from `errors.proto`) and,
depending on its code, a `BadRequest` or `RetryInfo`.
"""

import logging
import secrets
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple, TypeAlias

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc import StatusCode

from queuegate.v1 import errors_pb2, status_pb2
from queuegate_server.decisions.log import AuditUnavailable
from queuegate_server.engine import GroupsUnavailable, NotReady, TooManyLookups, UnknownPartition
from queuegate_server.policy_age import PolicyTooOld
from queuegate_server.sync.changes import NotReached

DOMAIN: Final = "queuegate"
WHOLE_REQUEST: Final = "request"
"""The field name in violations that concern the entire request."""
DETAILS_TRAILER: Final = "grpc-status-details-bin"

_PREFIX: Final = "ERROR_REASON_"
_NOT_READY_RETRY_SECONDS: Final = 1.0
_RETRY_RESOLUTION: Final = 1 / 64
"""The resolution of retry delays, in seconds."""
_MAX_CACHED_STATUSES: Final = 64
_MAX_VIOLATIONS: Final = 10
_LOG = logging.getLogger("queuegate_server.rpc")


class InvalidRequest(Exception):
    """The request has missing or malformed fields."""

    def __init__(self, violations: list[tuple[str, str]]) -> None:
        """Keep the first few (field, fault) pairs, because gRPC rejects statuses over 8 KiB."""
        self.violations = violations[:_MAX_VIOLATIONS]
        texts = [
            text if field == WHOLE_REQUEST else f"{field}: {text}"
            for field, text in self.violations
        ]
        if len(violations) > len(texts):
            texts.append(f"and {len(violations) - len(texts)} more")
        super().__init__("; ".join(texts))


class UnreadableRequest(InvalidRequest):
    """The request is malformed or has too many fields. The audit log must not parse it either."""


class Overloaded(Exception):
    """The server reached the limit named in the message."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        """`retry_after` is how long the caller should wait, in seconds; 0 if unknown."""
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(Exception):
    """The caller exceeded its rate limit."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the caller exceeds its call rate (limits.caller_rate)")
        self.retry_after = retry_after


class Draining(Exception):
    """The server closed the stream; the message states the reason."""


class NotCaughtUp(Exception):
    """This server has not applied a change required by the request."""

    retry_after = 0.05

    def __init__(self) -> None:
        super().__init__(
            "at_least: this server does not know of that change; ask the server that "
            "reported it, or omit at_least if that server has restarted since"
        )


class Unauthenticated(Exception):
    """The caller presented no credential or an invalid one."""


class PermissionDenied(Exception):
    """The caller was identified but lacks the role named in the message."""


class NotConfirmed(Exception):
    """A worker did not confirm a call that all workers must execute."""


_Reason: TypeAlias = errors_pb2.ErrorReason.ValueType
_STATUSES: Final[Mapping[type[Exception], tuple[StatusCode, _Reason]]] = {
    InvalidRequest: (StatusCode.INVALID_ARGUMENT, errors_pb2.ERROR_REASON_INVALID_FIELD),
    UnreadableRequest: (StatusCode.INVALID_ARGUMENT, errors_pb2.ERROR_REASON_INVALID_FIELD),
    UnknownPartition: (StatusCode.NOT_FOUND, errors_pb2.ERROR_REASON_UNKNOWN_PARTITION),
    GroupsUnavailable: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_RESOLVER_UNAVAILABLE),
    TooManyLookups: (StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_OVERLOADED),
    NotReady: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_READY),
    PolicyTooOld: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_READY),
    NotConfirmed: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_READY),
    NotReached: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_READY),
    Overloaded: (StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_OVERLOADED),
    RateLimited: (StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_RATE_LIMITED),
    Draining: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_DRAINING),
    AuditUnavailable: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_AUDIT_UNAVAILABLE),
    NotCaughtUp: (StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_NOT_CAUGHT_UP),
    Unauthenticated: (StatusCode.UNAUTHENTICATED, errors_pb2.ERROR_REASON_CALLER_UNKNOWN),
    PermissionDenied: (StatusCode.PERMISSION_DENIED, errors_pb2.ERROR_REASON_CALLER_NOT_PERMITTED),
}
_INTERNAL: Final = (StatusCode.INTERNAL, errors_pb2.ERROR_REASON_INTERNAL)


class CallStatus(NamedTuple):
    """The status of a failed call."""

    code: StatusCode
    reason: str
    """The ErrorInfo reason."""
    proto: status_pb2.Status
    """Shared between calls; must not be modified."""
    trailer: bytes
    """The serialized `proto`."""


def to_status(error: Exception) -> CallStatus:
    """Return an error's status, with the error's text as the message.

    An unexpected error is logged with a random ID and becomes INTERNAL; the message contains only
    the ID.
    """
    status = _STATUSES.get(type(error))
    if status is None:
        error_id = secrets.token_hex(8)
        _LOG.error("unexpected error", exc_info=error, extra={"fault": error_id})
        return _status(*_INTERNAL, f"internal error {error_id}; the server's log shows the cause")
    if isinstance(error, InvalidRequest):
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=field, description=text)
            for field, text in error.violations
        ]
        details = error_details_pb2.BadRequest(field_violations=violations)
        return _status(*status, str(error), details)
    is_not_ready = status[1] == errors_pb2.ERROR_REASON_NOT_READY
    retry_after = _NOT_READY_RETRY_SECONDS if is_not_ready else getattr(error, "retry_after", 0.0)
    # Round delays up so that more statuses are identical. Identical statuses share a cache entry,
    # and are sent only once per batch.
    seconds = ceil(retry_after / _RETRY_RESOLUTION) * _RETRY_RESOLUTION
    return _cached_status(*status, str(error), seconds)


def reason_name(error: Exception) -> str:
    """Return an error's ErrorInfo reason, in lower case."""
    _, reason = _STATUSES.get(type(error), _INTERNAL)
    return errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX).lower()


def _status(code: StatusCode, reason: _Reason, message: str, *details: Message) -> CallStatus:
    name = errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX)
    info = error_details_pb2.ErrorInfo(reason=name, domain=DOMAIN)
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in (info, *details):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return CallStatus(code, name, status, status.SerializeToString())


@lru_cache(maxsize=_MAX_CACHED_STATUSES)
def _cached_status(code: StatusCode, reason: _Reason, text: str, seconds: float) -> CallStatus:
    """Build a status. Cached, because refusing a call must cost less than serving it."""
    if not seconds:
        return _status(code, reason, text)
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromNanoseconds(int(seconds * 1e9))
    return _status(code, reason, text, retry)
