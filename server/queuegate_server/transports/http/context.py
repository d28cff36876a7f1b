"""The context of a call over HTTP, for the handlers that are registered for gRPC."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, cast

import grpc
from aiohttp import web

from queuegate_server.admin.http_call import HttpCall
from queuegate_server.admin.keep_alive import KeepAliveConnection
from queuegate_server.transports.http.failures import CallFailed, failure_of_call

REQUEST_ID: Final = "X-Request-ID"
_FORWARDED: Final = ("x-request-id", "traceparent", "tracestate")
_LOG: Final = logging.getLogger("queuegate_server.transports")

Trailing = Sequence[tuple[str, str | bytes]]


class HttpConnection(KeepAliveConnection):
    """A connection that keeps what its client certificate says."""

    __slots__ = ("certificate",)

    def __init__(self, server: web.Server, connections: "dict[HttpConnection, None]") -> None:
        """Add this connection to `connections`, which is ordered by idle time (longest first)."""
        super().__init__(server, connections, _LOG)
        self.certificate: Mapping[str, Iterable[bytes]] | None = None
        """The client certificate in the form of gRPC's `auth_context`, once it has been read."""


@dataclass(eq=False)  # with slots, `super()` would be that of another class
class HttpContext(HttpCall):
    """The subset of grpc.aio's ServicerContext used by this server's handlers."""

    is_unix: bool = False
    """Whether the request came over a Unix socket."""
    request_id: str = field(default="", init=False)
    """The ID that an aborted call has in the log, if the request has none."""
    _code: grpc.StatusCode | None = field(default=None, init=False)

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Return the request's headers that gRPC's callers send as metadata."""
        headers = self.request.headers
        found = super().invocation_metadata()
        return found + [(name, headers[name]) for name in _FORWARDED if name in headers]

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return the verified client certificate, which a connection keeps."""
        connection = cast("HttpConnection", self.request.protocol)
        if connection.certificate is None:
            connection.certificate = super().auth_context()
        return connection.certificate

    def peer(self) -> str:
        """Return the peer's address, which identifies a caller only if it is known to be local."""
        if self.is_unix and not self.is_forwarded and self.request.transport is not None:
            return "unix:"
        return super().peer() or f"http:{self.address}"

    def time_remaining(self) -> float | None:
        """Return None, because a request has no deadline."""
        return None

    def code(self) -> grpc.StatusCode | None:
        """Return the status set by `abort`, or None."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Trailing = ()
    ) -> NoReturn:
        """Abort the call with a status: raise CallFailed."""
        self._code = code
        self.request_id = str(dict(trailing_metadata).get("x-request-id", ""))
        raise CallFailed(failure_of_call(code, details, trailing_metadata))
