"""From domain errors to gRPC statuses: the only place that knows status codes.

Each status carries a `google.rpc.ErrorInfo` (domain `queuegate`, reason as in
`errors.proto`), and what the code calls for: `BadRequest`, `RetryInfo`.
"""

import logging
import secrets
from functools import lru_cache
from math import ceil
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from queuegate.v1 import errors_pb2
from queuegate_server.engine import GroupsUnavailable, NotReady, TooManyLookUps
from queuegate_server.rpc.call_identity import REQUEST_ID
from queuegate_server.snapshot import UnknownPartition

DOMAIN: Final = "queuegate"
WHOLE_REQUEST: Final = "request"
"""The field that is named where no field can be."""
DETAILS_TRAILER: Final = "grpc-status-details-bin"
_PUSHBACK_TRAILER: Final = "grpc-retry-pushback-ms"

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
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


def to_status(error: Exception) -> status_pb2.Status:
    """Return the status of an error. An unknown one is logged and becomes INTERNAL
    with an id that the log has too, and nothing else of it.
    """
    match error:
        case InvalidRequest():
            violations = [
                error_details_pb2.BadRequest.FieldViolation(field=field, description=text)
                for field, text in error.violations
            ]
            return _status(
                grpc.StatusCode.INVALID_ARGUMENT,
                str(error),
                errors_pb2.ERROR_REASON_INVALID_FIELD,
                error_details_pb2.BadRequest(field_violations=violations),
            )
        case UnknownPartition():
            named = ", ".join(error.known[:_NAMED_PARTITIONS]) or "none"
            more = ", ..." if len(error.known) > _NAMED_PARTITIONS else ""
            return _status(
                grpc.StatusCode.NOT_FOUND,
                f"partition {error.name!r} does not exist; partitions are: {named}{more}",
                errors_pb2.ERROR_REASON_UNKNOWN_PARTITION,
            )
        case GroupsUnavailable():
            too_many = isinstance(error, TooManyLookUps)
            return _status(
                grpc.StatusCode.RESOURCE_EXHAUSTED if too_many else grpc.StatusCode.UNAVAILABLE,
                f"groups are needed and resolver {error.resolver!r} could not be asked:"
                f" {error.detail}",
                _REASONS[type(error)],
                _retry(error.retry_after),
            )
        case NotReady() | NotConfirmed():
            return _status(
                grpc.StatusCode.UNAVAILABLE,
                str(error) or "no policy has been loaded yet",
                errors_pb2.ERROR_REASON_NOT_READY,
                _retry(_NOT_READY_RETRY_SECONDS),
            )
        case (
            TooMuchWork()
            | TooManyCalls()
            | Draining()
            | AuditUnavailable()
            | CallerUnknown()
            | CallerNotPermitted()
        ):
            code, reason = _WITH_OWN_TEXT[type(error)]
            return _own_text_status(code, reason, str(error), _retry_after(error))
    fault = secrets.token_hex(8)
    _LOG.error("unexpected error", exc_info=error, extra={"fault": fault})
    return _status(
        grpc.StatusCode.INTERNAL,
        f"internal error {fault}; the server's log has the cause",
        errors_pb2.ERROR_REASON_INTERNAL,
    )


def as_too_much() -> tuple[str, tuple[tuple[str, str | bytes], ...]]:
    """Return message and trailing metadata of what a transport refuses before it is a call."""
    status = to_status(TooMuchWork("the server has more calls than it can answer in time"))
    return status.message, ((DETAILS_TRAILER, status.SerializeToString()),)


def reason_name(error: Exception) -> str:
    """Return the reason in the ErrorInfo of an error's status, in lower case."""
    reason = _REASONS.get(type(error), errors_pb2.ERROR_REASON_INTERNAL)
    return errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX).lower()


async def abort(
    context: "grpc.aio.ServicerContext[Any, Any]",
    error: Exception,
    status: status_pb2.Status,
    request_id: str,
) -> NoReturn:
    """End the call with the status of the error, and tell the caller its request id."""
    trailers: tuple[tuple[str, str | bytes], ...] = (
        (DETAILS_TRAILER, status.SerializeToString()),
        (REQUEST_ID, request_id),
    )
    if isinstance(error, GroupsUnavailable):
        # The failure is remembered for longer than a client retries by itself.
        trailers += ((_PUSHBACK_TRAILER, "-1"),)
    await context.abort(code_of(status), status.message, trailing_metadata=trailers)


def code_of(status: status_pb2.Status) -> grpc.StatusCode:
    """Return the code of a status."""
    return _CODES[status.code]


def reason_of(status: status_pb2.Status) -> str:
    """Return the reason that the status gives in its ErrorInfo."""
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info):
            return str(info.reason)
    return ""


def _status(
    code: grpc.StatusCode,
    message: str,
    reason: errors_pb2.ErrorReason.ValueType,
    *details: Message,
) -> status_pb2.Status:
    name = errors_pb2.ErrorReason.Name(reason).removeprefix(_PREFIX)
    info = error_details_pb2.ErrorInfo(reason=name, domain=DOMAIN)
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in (info, *details):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    return status


@lru_cache(maxsize=_KEPT)
def _own_text_status(
    code: grpc.StatusCode, reason: errors_pb2.ErrorReason.ValueType, text: str, seconds: float
) -> status_pb2.Status:
    """Return a status that nobody changes. Kept, so that to refuse much costs little."""
    return _status(code, text, reason, *((_retry(seconds),) if seconds else ()))


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
