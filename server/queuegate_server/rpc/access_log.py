"""Writes the access log, and aborts failed calls with a status.

Malformed request IDs and trace contexts are ignored so that they never reach the log or an error's
trailers.
"""

import logging
import re
import secrets
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, NoReturn

import grpc
import grpc.aio

from queuegate_server.engine import GroupsUnavailable
from queuegate_server.observe.log_sampling import SAMPLER
from queuegate_server.rpc.authentication import current_caller
from queuegate_server.rpc.errors import DETAILS_TRAILER, Draining, to_status
from queuegate_server.sync.changes import NotReached

Context = grpc.aio.ServicerContext[Any, Any]

REQUEST_ID: Final = "x-request-id"
TRACEPARENT: Final = "traceparent"

_LOG = logging.getLogger("queuegate_server.rpc")
_WARNED_CODES: Final = frozenset(
    {
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
    }
)
"""Codes logged as warnings. Other codes are the caller's fault and are logged at debug level."""
_MAX_MESSAGE: Final = 500
_FAILED: Final = "call failed"
_ENDED: Final = "call"
_PUSHBACK_TRAILER: Final = "grpc-retry-pushback-ms"
_REQUEST_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
# See https://www.w3.org/TR/trace-context/#traceparent-header. Later versions may append fields.
_TRACEPARENT_PATTERN: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(.*)"
)


class RequestContext(NamedTuple):
    """The request ID and trace context in a call's metadata; empty if absent."""

    request_id: str = ""
    trace_id: str = ""
    parent_id: str = ""

    @classmethod
    def from_metadata(cls, metadata: Iterable[tuple[str, Any]] | None) -> "RequestContext":
        """Read a call's metadata, ignoring malformed values."""
        request_id = trace_id = parent_id = ""
        for key, value in metadata or ():
            if not isinstance(value, str):
                continue
            if key == REQUEST_ID and not request_id and _REQUEST_ID_PATTERN.fullmatch(value):
                request_id = value
            elif key == TRACEPARENT and not trace_id:
                trace_id, parent_id = _trace_context(value)
        return cls(request_id, trace_id, parent_id)

    def fields(self) -> dict[str, str]:
        """Return the non-empty values as log fields."""
        return {name: value for name, value in self._asdict().items() if value}


def log_end(method: str, context: Context, start: float, code: str) -> None:
    """Log a completed or cancelled call at debug level."""
    if _LOG.isEnabledFor(logging.DEBUG):
        request = RequestContext.from_metadata(context.invocation_metadata())
        fields = {"method": method, "code": code} | _fields(context, request, start)
        _LOG.debug(_ENDED, extra=fields)


def log_admin_call(method: str, context: Context) -> None:
    """Log, at info level, a call that requires the admin role."""
    request = RequestContext.from_metadata(context.invocation_metadata())
    _LOG.info("admin call", extra={"method": method} | _fields(context, request))


async def abort(
    method: str, context: Context, error: Exception, start: float | None = None
) -> NoReturn:
    """Abort a call with the status of an error, and log the call.

    Args:
        method: The method's full name; over HTTP, the endpoint's path if no method was called.
        context: The call's context.
        error: The exception that made the call fail.
        start: The call's start time from `time.perf_counter`, in seconds, if known.
    """
    status = to_status(error)
    # Drop the references to stack frames, which would keep the request in memory.
    error.__traceback__ = error.__cause__ = error.__context__ = None
    request = RequestContext.from_metadata(context.invocation_metadata())
    if not request.request_id:
        request = request._replace(request_id=secrets.token_hex(8))
    is_warning = status.code in _WARNED_CODES and not isinstance(error, Draining)
    level, event = (logging.WARNING, _FAILED) if is_warning else (logging.DEBUG, _ENDED)
    if _LOG.isEnabledFor(level):
        about = {"method": method, "code": status.code.name, "reason": status.reason}
        if not SAMPLER.suppresses(_LOG.name, level, event, about):
            fields = about | _fields(context, request, start)
            fields["message_to_caller"] = status.proto.message[:_MAX_MESSAGE]
            _LOG.log(level, event, extra=fields)
    trailers: tuple[tuple[str, str | bytes], ...] = (
        (DETAILS_TRAILER, status.trailer),
        (REQUEST_ID, request.request_id),
    )
    if isinstance(error, GroupsUnavailable | NotReached):
        # Disable automatic retries. Failed lookups stay cached for longer than clients retry, and
        # changes reach the other replicas without a retry.
        trailers += ((_PUSHBACK_TRAILER, "-1"),)
    await context.abort(status.code, status.proto.message, trailing_metadata=trailers)


def _fields(
    context: Context, request: RequestContext, start: float | None = None
) -> dict[str, Any]:
    fields: dict[str, Any] = request.fields()
    if caller := current_caller():
        fields["caller"] = caller
    if start is not None:
        fields["seconds"] = round(time.perf_counter() - start, 6)
    fields["peer"] = context.peer()
    return fields


def _trace_context(text: str) -> tuple[str, str]:
    match = _TRACEPARENT_PATTERN.fullmatch(text)
    if match is None:
        return "", ""
    trace_id, parent_id, rest = match.groups()
    if rest and (text.startswith("00") or not rest.startswith("-")):
        return "", ""
    return trace_id, parent_id
