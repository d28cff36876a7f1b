"""From domain errors to gRPC statuses: the only place that knows status codes.

Each status carries a `google.rpc.ErrorInfo` (domain `queuegate`, reason as in
`errors.proto`), and what the code calls for: `BadRequest`, `RetryInfo`.
"""

import logging
import secrets
from functools import lru_cache
from math import ceil
from typing import Final, NamedTuple

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from queuegate.v1 import errors_pb2
from queuegate_server.engine import GroupsUnavailable, NotReady, TooManyLookUps
from queuegate_server.snapshot import UnknownPartition

DOMAIN: Final = "queuegate"
WHOLE_REQUEST: Final = "request"
"""The field that is named where no field can be."""
DETAILS_TRAILER: Final = "grpc-status-details-bin"

_PREFIX: Final = "ERROR_REASON_"
_NOT_READY_RETRY_SECONDS: Final = 1.0
_AUDIT_RETRY_SECONDS: Final = 1.0
_RETRY_STEP: Final = 1 / 64
"""Seconds; when to ask again is told no more exactly, so that statuses repeat."""
_KEPT: Final = 64
_NAMED_PARTITIONS: Final = 10
_TOLD_VIOLATIONS: Final = 10
_LOG = logging.getLogger("queuegate_server.rpc")


class InvalidRequest(Exception):
    """Fields of a request are missing or malformed."""

    def __init__(self, violations: list[tuple[str, str]]) -> None:
        """Take (field, what is wrong with it), the field as a path from the request.

        Only the first ones are told: gRPC refuses a status of more than 8 KiB.
        """
        self.violations = violations[:_TOLD_VIOLATIONS]
        told = [
            text if field == WHOLE_REQUEST else f"{field}: {text}"
            for field, text in self.violations
        ]
        if len(violations) > len(told):
            told.append(f"and {len(violations) - len(told)} more")
        super().__init__("; ".join(told))


class TooMuchWork(Exception):
    """The request is valid, and more than may be done now; the message says what."""

    def __init__(self, told: str, retry_after: float = 0.0) -> None:
        """Take the message, and the seconds until it may be less (0: nobody knows)."""
        super().__init__(told)
        self.retry_after = retry_after


class Draining(Exception):
    """The server ends a stream that the caller has not ended; the message says so."""


class AuditUnavailable(Exception):
    """The answer may not be given, because its record cannot be written."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("the decision cannot be recorded, and is not told without its record")


class CallerUnknown(Exception):
    """The caller showed no credential, or one that is not valid; the message says so."""


class CallerNotPermitted(Exception):
    """The caller is known and may not do this; the message says what it needs."""


class TooManyCalls(Exception):
    """The caller is over its rate."""

    def __init__(self, retry_after: float) -> None:
        """Take the seconds until it may call again."""
        super().__init__("the caller makes more calls a second than it may")
        self.retry_after = retry_after


class NotConfirmed(Exception):
    """A worker process did not confirm what all of them must do; the text says which."""


_WITH_OWN_TEXT: Final = {
    TooMuchWork: (grpc.StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_OVERLOADED),
    TooManyCalls: (grpc.StatusCode.RESOURCE_EXHAUSTED, errors_pb2.ERROR_REASON_RATE_LIMITED),
    Draining: (grpc.StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_DRAINING),
    AuditUnavailable: (grpc.StatusCode.UNAVAILABLE, errors_pb2.ERROR_REASON_AUDIT_UNAVAILABLE),
    CallerUnknown: (grpc.StatusCode.UNAUTHENTICATED, errors_pb2.ERROR_REASON_CALLER_UNKNOWN),
    CallerNotPermitted: (
        grpc.StatusCode.PERMISSION_DENIED,
        errors_pb2.ERROR_REASON_CALLER_NOT_PERMITTED,
    ),
}
_REASONS: Final = {
    InvalidRequest: errors_pb2.ERROR_REASON_INVALID_FIELD,
    UnknownPartition: errors_pb2.ERROR_REASON_UNKNOWN_PARTITION,
    GroupsUnavailable: errors_pb2.ERROR_REASON_RESOLVER_UNAVAILABLE,
    TooManyLookUps: errors_pb2.ERROR_REASON_OVERLOADED,
    NotReady: errors_pb2.ERROR_REASON_NOT_READY,
    NotConfirmed: errors_pb2.ERROR_REASON_NOT_READY,
    **{kind: reason for kind, (_, reason) in _WITH_OWN_TEXT.items()},
}


class Told(NamedTuple):
    """How a call ends that fails, and what its caller is told."""

    code: grpc.StatusCode
    reason: str
    """As the ErrorInfo gives it."""
    status: status_pb2.Status
    details: bytes
    """The status as a trailer."""


def told(error: Exception) -> Told:
    """Return what is told of an error. An unknown one is logged and becomes INTERNAL
    with an id that the log has too, and nothing else of it.
    """
    own_text = _WITH_OWN_TEXT.get(type(error))
    if own_text is not None:
        return _own_text(*own_text, str(error), _retry_after(error))
    match error:
        case InvalidRequest():
            violations = [
                error_details_pb2.BadRequest.FieldViolation(field=field, description=text)
                for field, text in error.violations
            ]
            return _told(
                grpc.StatusCode.INVALID_ARGUMENT,
                errors_pb2.ERROR_REASON_INVALID_FIELD,
                str(error),
                error_details_pb2.BadRequest(field_violations=violations),
            )
        case UnknownPartition():
            named = ", ".join(error.known[:_NAMED_PARTITIONS]) or "none"
            more = ", ..." if len(error.known) > _NAMED_PARTITIONS else ""
            return _told(
                grpc.StatusCode.NOT_FOUND,
                errors_pb2.ERROR_REASON_UNKNOWN_PARTITION,
                f"partition {error.name!r} does not exist; partitions are: {named}{more}",
            )
        case GroupsUnavailable():
            too_many = isinstance(error, TooManyLookUps)
            return _told(
                grpc.StatusCode.RESOURCE_EXHAUSTED if too_many else grpc.StatusCode.UNAVAILABLE,
                _REASONS[type(error)],
                f"groups are needed and resolver {error.resolver!r} could not be asked:"
                f" {error.detail}",
                _retry(error.retry_after),
            )
        case NotReady() | NotConfirmed():
            return _told(
                grpc.StatusCode.UNAVAILABLE,
                errors_pb2.ERROR_REASON_NOT_READY,
                str(error) or "no policy has been loaded yet",
                _retry(_NOT_READY_RETRY_SECONDS),
            )
    fault = secrets.token_hex(8)
    _LOG.error("unexpected error", exc_info=error, extra={"fault": fault})
    return _told(
        grpc.StatusCode.INTERNAL,
        errors_pb2.ERROR_REASON_INTERNAL,
        f"internal error {fault}; the server's log has the cause",
    )


def to_status(error: Exception) -> status_pb2.Status:
    """Return the status of an error, which may be that of others: nobody changes it."""
    return told(error).status


def as_too_much() -> tuple[str, tuple[tuple[str, str | bytes], ...]]:
    """Return message and trailing metadata of what a transport refuses before it is a call."""
    refusal = told(TooMuchWork("the server has more calls than it can answer in time"))
    return refusal.status.message, ((DETAILS_TRAILER, refusal.details),)


def reason_name(error: Exception) -> str:
    """Return the reason in the ErrorInfo of an error's status, in lower case."""
    reason = _REASONS.get(type(error), errors_pb2.ERROR_REASON_INTERNAL)
    return errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX).lower()


def _told(
    code: grpc.StatusCode,
    reason: errors_pb2.ErrorReason.ValueType,
    message: str,
    *details: Message,
) -> Told:
    name = errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX)
    info = error_details_pb2.ErrorInfo(reason=name, domain=DOMAIN)
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in (info, *details):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return Told(code, name, status, status.SerializeToString())


@lru_cache(maxsize=_KEPT)
def _own_text(
    code: grpc.StatusCode, reason: errors_pb2.ErrorReason.ValueType, text: str, seconds: float
) -> Told:
    """Kept, so that to refuse much costs little."""
    return _told(code, reason, text, *((_retry(seconds),) if seconds else ()))


def _retry(seconds: float) -> error_details_pb2.RetryInfo:
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromNanoseconds(int(seconds * 1e9))
    return info


def _retry_after(error: Exception) -> float:
    match error:
        case TooManyCalls() | TooMuchWork():
            return ceil(error.retry_after / _RETRY_STEP) * _RETRY_STEP
        case AuditUnavailable():
            return _AUDIT_RETRY_SECONDS
    return 0.0
