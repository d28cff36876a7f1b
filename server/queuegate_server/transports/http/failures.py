"""Converts the statuses of failed calls to HTTP statuses and messages."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

import grpc
from google.rpc import error_details_pb2

from queuegate.v1 import status_pb2
from queuegate_server.transports.http.vocabulary import MEMBERS

HTTP_STATUSES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNAVAILABLE: 503,
}
"""HTTP statuses by gRPC status. Any other gRPC status maps to 500."""
RETRIED: Final = frozenset({429, 503})
"""The statuses with a `Retry-After` header."""
MIN_RETRY_SECONDS: Final = 1
# An unknown partition is a mistake in the request; 404 would be one in the URL.
_DIFFERENT: Final = {grpc.StatusCode.NOT_FOUND: 400}
_BY_NUMBER: Final = {code.value[0]: each for code, each in (HTTP_STATUSES | _DIFFERENT).items()}
_DETAILS: Final = "grpc-status-details-bin"


class HttpFailure(NamedTuple):
    """An error of a whole request, or of one evaluation."""

    status: int
    message: str
    retry_seconds: int = 0
    """How long the caller should wait; 0 if a retry is useless."""
    allowed_method: str = ""
    """The only method that the path has, if the request has another."""


class CallFailed(Exception):
    """The registered handler has aborted a call, or a request was refused before it."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of_call(
    code: grpc.StatusCode, message: str, trailing: Iterable[tuple[str, str | bytes]]
) -> HttpFailure:
    """Return the failure of an aborted call."""
    status = status_pb2.Status(code=code.value[0], message=message)
    # Of gRPC's headers, only those whose names end so are bytes.
    status.MergeFromString(cast("bytes", dict(trailing).get(_DETAILS, b"")))
    return failure_of_status(status)


def failure_of_status(status: status_pb2.Status) -> HttpFailure:
    """Return the failure that a status states, with the request's own names for its fields."""
    number = _BY_NUMBER.get(status.code, 500)
    message, seconds = status.message, 0
    bad = _detail(status, error_details_pb2.BadRequest)
    for each in () if bad is None else bad.field_violations:
        message = message.replace(f"{each.field}: ", f"{_member(each.field)}: ", 1)
    if number in RETRIED:
        retry = _detail(status, error_details_pb2.RetryInfo)
        delay = 0.0 if retry is None else retry.retry_delay.ToTimedelta().total_seconds()
        seconds = max(MIN_RETRY_SECONDS, math.ceil(delay))
    return HttpFailure(number, message, seconds)


def _detail(status: status_pb2.Status, kind: Callable[[], Any]) -> Any:
    """Return the detail of a kind, or None."""
    message = kind()
    return message if any(each.Unpack(message) for each in status.details) else None


def _member(field: str) -> str:
    """Return the member that became a field, such as `subject.properties.groups[3]`."""
    name, bracket, index = field.partition("[")
    if name.startswith("application."):
        return f"resource.properties.{name.removeprefix('application.')}"
    return f"{MEMBERS.get(name, name)}{bracket}{index}"
