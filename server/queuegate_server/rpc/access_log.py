"""The line of the log that tells how a call ended, and the end of one that fails."""

import logging
import time
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from queuegate_server.engine import GroupsUnavailable
from queuegate_server.observe.log_sampling import SAMPLER
from queuegate_server.rpc.current_caller import CALLER
from queuegate_server.rpc.errors import DETAILS_TRAILER, Draining, told
from queuegate_server.rpc.request_context import (
    REQUEST_ID,
    RequestContext,
    call_identity,
    new_request_id,
)

_LOG = logging.getLogger("queuegate_server.rpc")
_FAILURES: Final = frozenset(
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
"""How calls end that somebody should look at. What is wrong with a request is for the
caller to see; the log has it at level debug."""
_LONGEST_MESSAGE: Final = 500
_FAILED: Final = "call failed"
_ENDED: Final = "call"
_PUSHBACK_TRAILER: Final = "grpc-retry-pushback-ms"


class AccessLog:
    """Writes one line about a call: a warning if it failed, otherwise at level debug."""

    __slots__ = ("_context", "_method", "_start")

    def __init__(
        self,
        method: str,
        context: "grpc.aio.ServicerContext[Any, Any]",
        start: float | None = None,
    ) -> None:
        """Take the full name of the method, and when the call began by `perf_counter`."""
        self._method = method
        self._context = context
        self._start = start

    def write(self, code: str) -> None:
        """Tell the end of a call that did not fail."""
        if _LOG.isEnabledFor(logging.DEBUG):
            about = {"method": self._method, "code": code}
            _LOG.debug(_ENDED, extra=about | self._fields(self._identity()))

    def tell(self, event: str) -> None:
        """Tell at level info that a call is made."""
        identity = self._identity().fields()
        fields = {"method": self._method, **identity, **_caller(), "peer": self._context.peer()}
        _LOG.info(event, extra=fields)

    async def fail(self, error: Exception) -> NoReturn:
        """End the call with the status of an error, and tell it."""
        ended = told(error)
        identity = self._identity()
        if not identity.request_id:
            identity = identity._replace(request_id=new_request_id())
        failed = ended.code in _FAILURES and not isinstance(error, Draining)
        level, event = (logging.WARNING, _FAILED) if failed else (logging.DEBUG, _ENDED)
        if _LOG.isEnabledFor(level):
            about = {"method": self._method, "code": ended.code.name, "reason": ended.reason}
            if not SAMPLER.suppresses(_LOG.name, level, event, about):
                fields = about | self._fields(identity)
                fields["message_to_caller"] = ended.status.message[:_LONGEST_MESSAGE]
                _LOG.log(level, event, extra=fields)
        trailers: tuple[tuple[str, str | bytes], ...] = (
            (DETAILS_TRAILER, ended.details),
            (REQUEST_ID, identity.request_id),
        )
        if isinstance(error, GroupsUnavailable):
            # The failure is remembered for longer than a client retries by itself.
            trailers += ((_PUSHBACK_TRAILER, "-1"),)
        await self._context.abort(ended.code, ended.status.message, trailing_metadata=trailers)

    def _identity(self) -> RequestContext:
        return call_identity(self._context.invocation_metadata())

    def _fields(self, identity: RequestContext) -> dict[str, Any]:
        fields: dict[str, Any] = identity.fields() | _caller()
        if self._start is not None:
            fields["seconds"] = round(time.perf_counter() - self._start, 6)
        fields["peer"] = self._context.peer()
        return fields


def _caller() -> dict[str, str]:
    """Return who calls, where callers are identified."""
    caller = CALLER.get()
    return {"caller": caller} if caller else {}
