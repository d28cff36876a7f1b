"""A single call over the native transport: its handler, and what that gets as the context."""

import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import coroutine
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from pygrpc_native import NativeGrpcFront

_NO_DEADLINE: Final = float(sys.maxsize)
"""What gRPC says of a call that has none."""
_INSECURE: Final = {"transport_security_type": [b"insecure"]}
_RESERVED: Final = "grpc-retry-pushback-ms"
"""What only grpcio lets a server say: when to ask again. Here a client retries as it likes."""

Metadata = Sequence[tuple[str, str | bytes]]
Details = tuple[tuple[tuple[str, str | bytes], ...], str, float | None]


class Call:
    """What a handler of a single call gets as its context: the part of grpc.aio's that this
    server's handlers use.
    """

    __slots__ = ("_code", "_deadline", "_details", "_message", "_trailing", "arrived")

    def __init__(self, details: Details, arrived: float) -> None:
        """Take what the transport knows: metadata, peer and seconds left; and when it told
        that, by the monotonic clock.
        """
        self._details = details
        self.arrived = arrived
        left = details[2]
        self._deadline = None if left is None else arrived + left
        self._code: grpc.StatusCode | None = None
        self._message = ""
        self._trailing: Metadata = ()

    def peer(self) -> str:
        """Return who calls, such as `ipv4:127.0.0.1:1234`."""
        return self._details[1]

    def invocation_metadata(self) -> Metadata:
        """Return the metadata of the request."""
        return self._details[0]

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return what authenticates the caller: nothing."""
        return _INSECURE

    def time_remaining(self) -> float:
        """Return the seconds up to the deadline."""
        if self._deadline is None:
            return _NO_DEADLINE
        return max(0.0, self._deadline - time.monotonic())

    def code(self) -> grpc.StatusCode | None:
        """Return the status so far; None is OK."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """End the call with a status."""
        self._code, self._message, self._trailing = code, details, trailing_metadata
        raise grpc.aio.AbortError

    def fail(self, front: NativeGrpcFront, number: int) -> None:
        """End the call with the status that `abort` has set."""
        code = self._code or grpc.StatusCode.UNKNOWN
        trailing = [entry for entry in self._trailing if entry[0] != _RESERVED]
        front.fail(number, code.value[0], self._message, trailing)


Handler = Callable[[Any, Call], Coroutine[Any, Any, Any]]


def of_bytes(handler: Any) -> Handler:
    """Return a handler that takes and returns bytes."""
    serve: Handler = handler.unary_unary
    parse, serialize = handler.request_deserializer, handler.response_serializer
    if parse is None and serialize is None:
        return serve

    async def converted(data: bytes, call: Call) -> bytes:
        try:
            request = parse(data)
        except Exception:  # whatever the bytes make of the parser
            await call.abort(grpc.StatusCode.INTERNAL, "Exception deserializing request!")
        response: bytes = serialize(await serve(request, call))
        return response

    return converted


@coroutine
def resume(work: Coroutine[Any, Any, None], waited_for: Any) -> Any:
    """Go on with a coroutine that has begun to wait outside any task."""
    while True:
        failure = None
        sent = None
        try:
            sent = yield waited_for
        except BaseException as error:  # a cancellation is for the one that waits
            failure = error
        try:
            waited_for = work.send(sent) if failure is None else work.throw(failure)
        except StopIteration:
            return
