"""The context of a unary call over the native transport."""

import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from pygrpc_native import NativeGrpcFront

_NO_DEADLINE: Final = float(sys.maxsize)
"""The remaining time that gRPC returns for a call without a deadline."""
_INSECURE: Final = {"transport_security_type": [b"insecure"]}
_RESERVED_TRAILER: Final = "grpc-retry-pushback-ms"
"""A trailer that only grpcio lets a server send."""

Metadata = Sequence[tuple[str, str | bytes]]
Details = tuple[tuple[tuple[str, str | bytes], ...], str, float | None]


class NativeContext:
    """The part of grpc.aio's ServicerContext that the handlers of this server use."""

    __slots__ = ("_code", "_deadline", "_details", "_message", "_trailing", "arrived")

    def __init__(self, details: Details, arrived: float) -> None:
        """Describe a call.

        Args:
            details: Metadata, peer and remaining seconds, as the transport reports them.
            arrived: When it reported them, by the monotonic clock.
        """
        self._details = details
        self.arrived = arrived
        remaining = details[2]
        self._deadline = None if remaining is None else arrived + remaining
        self._code: grpc.StatusCode | None = None
        self._message = ""
        self._trailing: Metadata = ()

    def peer(self) -> str:
        """Return the client's address, such as `ipv4:127.0.0.1:1234`."""
        return self._details[1]

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of the request."""
        return self._details[0]

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return what authenticates the caller: nothing."""
        return _INSECURE

    def time_remaining(self) -> float:
        """Return the seconds until the deadline."""
        if self._deadline is None:
            return _NO_DEADLINE
        return max(0.0, self._deadline - time.monotonic())

    def code(self) -> grpc.StatusCode | None:
        """Return the status that `abort` has set, None without one."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """End the call with a status."""
        self._code, self._message, self._trailing = code, details, trailing_metadata
        raise grpc.aio.AbortError

    def fail(self, front: NativeGrpcFront, number: int) -> None:
        """Send the status that `abort` has set."""
        code = self._code or grpc.StatusCode.UNKNOWN
        trailing = [entry for entry in self._trailing if entry[0] != _RESERVED_TRAILER]
        front.fail(number, code.value[0], self._message, trailing)


Handler = Callable[[Any, NativeContext], Coroutine[Any, Any, Any]]


def of_bytes(handler: Any) -> Handler:
    """Return the handler of a unary method as one that takes and returns bytes."""
    serve: Handler = handler.unary_unary
    parse, serialize = handler.request_deserializer, handler.response_serializer
    if parse is None and serialize is None:
        return serve

    async def converted(data: bytes, context: NativeContext) -> bytes:
        try:
            request = parse(data)
        except Exception:  # whatever the parser raises for the bytes
            await context.abort(grpc.StatusCode.INTERNAL, "Exception deserializing request!")
        response: bytes = serialize(await serve(request, context))
        return response

    return converted
