"""Convert gRPC statuses to exceptions."""

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2

from queuegate._address import DEFAULT_ADDRESS
from queuegate.exceptions import (
    DeadlineExceeded,
    GroupsUnavailable,
    InvalidArgument,
    MessageTooLarge,
    NotCaughtUp,
    NotPermitted,
    Overloaded,
    QueuegateError,
    ServerError,
    ServerUnavailable,
    Unavailable,
    UnknownPartition,
    Violation,
)
from queuegate.v1 import status_pb2

_DOMAIN: Final = "queuegate"
_DETAILS_TRAILER: Final = "grpc-status-details-bin"

_ATTEMPT: Final = re.compile(r"^[A-Z_]+: (?:ipv4|ipv6|unix):\S+: ")
"""Matches the status and address that gRPC puts before the cause of a failed connection."""

_TOO_LARGE: Final = "larger than max"
"""gRPC's wording for a message above the size limit, in errors from the client or the server."""

AT_THE_CLIENT: Final = "CLIENT: Received"

_CLOSED_TLS: Final = (
    "{address} closed the connection: if it requires a client certificate, pass"
    " Tls(certificate_file=…, key_file=…) or set QUEUEGATE_CERTIFICATE_FILE and"
    " QUEUEGATE_KEY_FILE, and check that the certificate has not expired; if it does not speak TLS,"
    " connect without it"
)

_NO_GRPC: Final = (
    "{address} is not a gRPC server: use an address from the server's `listen`"
    f" ({DEFAULT_ADDRESS} unless it is set), not the port for probes and metrics or a webhook"
)

_TLS_CAUSES: Final = {
    "alpn": _NO_GRPC,
    "hostname verification": (
        "the certificate of {address} is for a different name: pass the name in it with"
        " Tls(server_name=…) or QUEUEGATE_SERVER_NAME"
    ),
    "certificate has expired": (
        "the certificate of {address} has expired: renew it on the server, or set this machine's"
        " clock if that is wrong"
    ),
    "certificate is not yet valid": (
        "the certificate of {address} is not valid yet: set this machine's clock or the server's"
    ),
    "certificate_verify_failed": (
        "the certificate of {address} is not trusted: pass trusted CA certificates with"
        " Tls(ca_file=…) or QUEUEGATE_CA_FILE"
    ),
    "wrong_version_number": "{address} does not speak TLS: connect without it, or to another port",
    "socket closed": _CLOSED_TLS,
    "handshake": _CLOSED_TLS,
    "ssl": _CLOSED_TLS,
}
"""Messages for clients with TLS, keyed by gRPC's wording of the cause. gRPC reports causes only as
text.
"""

_CLOSED_PLAINTEXT: Final = (
    "{address} closed the connection: if it requires TLS, pass Tls(ca_file=…) or set "
    "QUEUEGATE_CA_FILE, and Tls(certificate_file=…, key_file=…) if it also requires a client "
    "certificate"
)

_CLOSED: Final = "{address} closed the connection"

_PLAINTEXT_CAUSES: Final = {
    "parsing http/2": _NO_GRPC,
    "socket closed": _CLOSED_PLAINTEXT,
    "connection reset": _CLOSED_PLAINTEXT,
}

_Detail = TypeVar("_Detail", bound=Message)

_NAMES: Final[dict[int, str]] = {code.value[0]: code.name for code in grpc.StatusCode}

_TYPES: Final[dict[str, Callable[..., QueuegateError]]] = {
    "INVALID_ARGUMENT": InvalidArgument,
    "NOT_FOUND": UnknownPartition,
    "PERMISSION_DENIED": NotPermitted,
    "UNAUTHENTICATED": NotPermitted,
    "UNAVAILABLE": ServerUnavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "RESOURCE_EXHAUSTED": Overloaded,
    "CANCELLED": ServerUnavailable,
}
"""The exception type for each status code. All other codes violate the contract and map to
ServerError.
"""

_UNAVAILABLE_TYPES: Final[dict[str, Callable[..., QueuegateError]]] = {
    "RESOLVER_UNAVAILABLE": GroupsUnavailable,
    "NOT_CAUGHT_UP": NotCaughtUp,
}
"""The exception types for UNAVAILABLE, by the server's reason. All other reasons map to
ServerUnavailable.
"""


def from_call(
    error: grpc.RpcError,
    address: str,
    timeout: float,
    *,
    encrypted: bool,
    has_worked: bool = False,
) -> QueuegateError:
    """Return the exception for a failed call.

    Args:
        error: The exception raised by gRPC.
        address: The server's address; messages contain it.
        timeout: The time limit for the call, in seconds.
        encrypted: Whether the client uses TLS.
        has_worked: Whether an earlier call succeeded. If so, the TLS settings are correct.
    """
    code = error.code().name
    status = _details(error.trailing_metadata() or ())
    reason = _reason(status)
    message = error.details() or ""
    if not reason:
        if code == "RESOURCE_EXHAUSTED" and _TOO_LARGE in message:
            return MessageTooLarge(_remedy(message, address), code=code)
        message = _local_message(
            code, message, address, timeout, encrypted=encrypted, has_worked=has_worked
        )
    return _exception(code, message, reason, status)


def no_response(address: str, timeout: float) -> str:
    """Return the message for a call that exceeded its time limit, in seconds."""
    return f"no response from {address} within {timeout:g} s"


def from_item(status: status_pb2.Status) -> QueuegateError:
    """Return the exception for a failed check in a batch."""
    code = _NAMES.get(status.code, "UNKNOWN")
    return _exception(code, status.message, _reason(status), status)


def _local_message(
    code: str, details: str, address: str, timeout: float, *, encrypted: bool, has_worked: bool
) -> str:
    """Return an error message for a failure reported by gRPC or a proxy, not by a queuegate
    server.
    """
    match code:
        case "UNAVAILABLE":
            cause = _ATTEMPT.sub("", details.rpartition("last error: ")[2])
            signs = _TLS_CAUSES if encrypted else _PLAINTEXT_CAUSES
            messages = (text for sign, text in signs.items() if sign in cause.lower())
            message = next(messages, "no server at {address}")
            if has_worked and message in (_CLOSED_TLS, _CLOSED_PLAINTEXT):
                message = _CLOSED
            return f"{message.format(address=address)} ({cause})"
        case "DEADLINE_EXCEEDED":
            return no_response(address, timeout)
        case "CANCELLED":
            return f"the call to {address} was cancelled: {details}"
        case "UNIMPLEMENTED":
            return f"{address} does not implement this call; is it a queuegate server? ({details})"
    return details


def _remedy(details: str, address: str) -> str:
    """Return an error message that says whether the request or the response was too large, and what
    to do about it.
    """
    if AT_THE_CLIENT in details:
        return f"the response of {address} is too large: request less at a time ({details})"
    return (
        f"the request is too large for {address}: send less at a time, or raise the server's "
        f"limits.max_message ({details})"
    )


def _exception(
    code: str, message: str, reason: str, status: status_pb2.Status | None
) -> QueuegateError:
    kind = _TYPES.get(code, ServerError)
    if kind is ServerUnavailable:
        kind = _UNAVAILABLE_TYPES.get(reason, kind)
    error = kind(message or code, code=code, reason=reason)
    match error:
        case InvalidArgument():
            request = _detail(status, error_details_pb2.BadRequest)
            if request is not None:
                error.violations = [
                    Violation(violation.field, violation.description)
                    for violation in request.field_violations
                ]
        case Unavailable():
            retry = _detail(status, error_details_pb2.RetryInfo)
            if retry is not None:
                error.retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    return error


def _details(trailers: Iterable[Any]) -> status_pb2.Status | None:
    for key, value in trailers:
        if key == _DETAILS_TRAILER and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _reason(status: status_pb2.Status | None) -> str:
    info = _detail(status, error_details_pb2.ErrorInfo)
    return info.reason if info is not None and info.domain == _DOMAIN else ""


def _detail(status: status_pb2.Status | None, kind: type[_Detail]) -> _Detail | None:
    """Return the first valid detail of the given type, or None."""
    for packed in status.details if status is not None else ():
        detail = kind()
        try:
            if packed.Unpack(detail):
                return detail
        except DecodeError:
            continue
    return None
