"""The server of the native transport.

Unary calls arrive as numbered events of the package's low-level API. Streams are forwarded to a
`grpc.aio` server over a Unix socket in a private folder, so their `peer()` is that socket.
"""

import asyncio
import logging
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from pygrpc_native import EVENT_CANCEL, NativeGrpcFront

from queuegate_server.settings.limits import Limits
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.throttling.controlled_delay import MAX_WAIT_SECONDS, CoDel
from queuegate_server.transports.grpcio import (
    KEEPALIVE_SECONDS,
    MAX_METADATA,
    PING_TIMEOUT_SECONDS,
    aio_server,
    bytes_handler,
    max_calls,
    milliseconds,
)
from queuegate_server.transports.native import STREAMS_FOLDER, STREAMS_SOCKET
from queuegate_server.transports.native.unread import SHORT_RESPONSES, UnreadBytes
from queuegate_server.transports.stalls import SWEEP_SECONDS, Refusal, disconnect

_LOG = logging.getLogger("queuegate_server.transports.native")
_FLUSH_SECONDS: Final = 0.2
_MAX_EVENTS: Final = 10_000
_EVENTS_PER_CALLBACK: Final = 64
"""The number of events handled before yielding to other work in the event loop."""
IO_THREADS: Final = 1
"""One I/O thread outpaces the interpreter. With two threads, a call takes 10% more CPU time."""
_HEALTH: Final = "/grpc.health."
_NO_DEADLINE: Final = float(sys.maxsize)
"""The remaining time of a call without a deadline, as in gRPC."""
_INSECURE: Final = {"transport_security_type": [b"insecure"]}
_RESERVED_TRAILER: Final = "grpc-retry-pushback-ms"
"""A trailer that only the grpcio transport can send."""

Metadata = Sequence[tuple[str, str | bytes]]
Details = tuple[tuple[tuple[str, str | bytes], ...], str, float | None]


@dataclass(slots=True, eq=False)
class NativeContext:
    """The subset of grpc.aio's ServicerContext used by this server's handlers."""

    _details: Details = field(repr=False)
    """The call's metadata, peer and remaining seconds."""
    arrived: float
    """The monotonic time when the call arrived."""
    _code: grpc.StatusCode | None = None
    _message: str = ""
    _trailing: Metadata = ()

    def peer(self) -> str:
        """Return the client's address, such as `ipv4:127.0.0.1:1234`."""
        return self._details[1]

    def invocation_metadata(self) -> Metadata:
        """Return the request's metadata."""
        return self._details[0]

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return the properties of an insecure connection."""
        return _INSECURE

    def time_remaining(self) -> float:
        """Return the seconds until the deadline."""
        remaining = self._details[2]
        if remaining is None:
            return _NO_DEADLINE
        return max(0.0, self.arrived + remaining - time.monotonic())

    def code(self) -> grpc.StatusCode | None:
        """Return the status set by `abort`, or None."""
        return self._code

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """Abort the call with a status."""
        self._code, self._message, self._trailing = code, details, trailing_metadata
        raise grpc.aio.AbortError

    def fail(self, front: NativeGrpcFront, number: int) -> None:
        """Send the status set by `abort`."""
        code = self._code or grpc.StatusCode.UNKNOWN
        trailing = [entry for entry in self._trailing if entry[0] != _RESERVED_TRAILER]
        front.fail(number, code.value[0], self._message, trailing)


Handler = Callable[[Any, NativeContext], Coroutine[Any, Any, Any]]


class NativeServer:
    """A counterpart of `grpc.aio.Server` that serves one insecure TCP port."""

    def __init__(
        self, limits: Limits, unread: ByteBudget, refusal: Refusal, *, shares_port: bool
    ) -> None:
        self._stream_server = aio_server(limits, shares_port=shares_port)
        self._max_message = limits.max_message
        self._max_calls = max_calls(limits)
        self._max_streams = limits.connections.max_streams
        self._codel = CoDel(MAX_WAIT_SECONDS)
        self._unread = UnreadBytes(unread)
        self._refusal = refusal
        self._shares_port = shares_port
        self._handlers: dict[str, Handler] = {}
        self._methods: list[tuple[Handler, bool, bool]] = []
        """By method number: the handler, whether its calls may be shed, and whether its responses
        may be long."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._front: NativeGrpcFront | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._folder: str | None = None
        self._is_stopping = False

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Do nothing; `add_registered_method_handlers` receives the same handlers."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Serve the unary methods of a service; the stream server serves its other methods."""
        served = {name: bytes_handler(handler) for name, handler in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, served)
        self._stream_server.add_generic_rpc_handlers((generic,))
        for name, handler in served.items():
            if not handler.response_streaming:
                self._handlers[f"/{service}/{name}"] = handler.unary_unary

    def add_insecure_port(self, address: str) -> int:
        """Bind the port and return it. Raises RuntimeError if it is taken."""
        if self._front is not None:
            raise RuntimeError("only one port is supported")
        try:
            self._front = NativeGrpcFront(
                address,
                [],
                io_threads=IO_THREADS,
                call_details=True,
                metrics=True,
                keepalive_time_ms=milliseconds(KEEPALIVE_SECONDS),
                keepalive_timeout_ms=milliseconds(PING_TIMEOUT_SECONDS),
                max_concurrent_streams=self._max_streams,
                max_metadata_size=MAX_METADATA,
                reuse_port=self._shares_port,
            )
        except OSError as error:
            raise RuntimeError(str(error)) from None
        return self._front.bound_port

    def add_secure_port(self, address: str, server_credentials: object) -> int:  # noqa: ARG002
        """Raise RuntimeError, because this transport does not support TLS."""
        raise RuntimeError(f"{address}: no TLS")

    async def start(self) -> None:
        """Start serving."""
        front = self._front
        if front is None:
            raise RuntimeError("no port was added")
        self._folder = tempfile.mkdtemp(prefix=STREAMS_FOLDER)
        path = str(Path(self._folder) / STREAMS_SOCKET)
        self._stream_server.add_insecure_port(f"unix:{path}")
        await self._stream_server.start()
        front.set_fallback(path)
        # Health checks are never shed, because probes must not fail under overload.
        self._methods = [
            (handler, not method.startswith(_HEALTH), method not in SHORT_RESPONSES)
            for method, handler in self._handlers.items()
        ]
        front.add_methods([(method, False) for method in self._handlers])
        front.start()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._receive, args=(front, loop), daemon=True).start()
        self._sweeping = asyncio.create_task(self._sweep(front))

    async def stop(self, grace: float | None) -> None:
        """Stop after giving calls in progress up to `grace` seconds to finish.

        Meanwhile, new calls are still served, because a client whose calls were refused would keep
        retrying this server until it is disconnected.
        """
        streams = asyncio.ensure_future(self._stream_server.stop(grace))
        if grace and self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        await streams
        await self._cancel_calls()
        # Wait, because closing drops unsent responses, and nothing reports when they are sent.
        await asyncio.sleep(_FLUSH_SECONDS)
        self._is_stopping = True
        await self._cancel_calls()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self._front is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._front.close)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _sweep(self, front: NativeGrpcFront) -> None:
        """Until cancelled, periodically disconnect clients that do not read their responses."""
        while await self._unread.any_unwritten.wait():
            await asyncio.sleep(SWEEP_SECONDS)
            if (metrics := front.metrics()) and (peers := self._unread.update(metrics)):
                await disconnect(peers)

    async def _cancel_calls(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks.clear()  # a task cancelled before its first step does not remove itself
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _receive(self, front: NativeGrpcFront, loop: asyncio.AbstractEventLoop) -> None:
        """Pass events to the event loop until the port is closed. Runs in a separate thread."""
        # Take all events at once, because the time that they wait in the transport is not measured.
        while (events := front.recv_batch_details(_MAX_EVENTS)) is not None:
            now = time.monotonic()
            try:
                for start in range(0, len(events), _EVENTS_PER_CALLBACK):
                    chunk = events[start : start + _EVENTS_PER_CALLBACK]
                    loop.call_soon_threadsafe(self._handle, front, chunk, now)
            except RuntimeError:  # the loop has been closed
                front.close()
                return

    def _handle(
        self, front: NativeGrpcFront, events: list[tuple[Any, ...]], arrived: float
    ) -> None:
        """Start or cancel calls; refuse those that are too large or too many."""
        for kind, number, method, payload, _, details in events:
            if kind == EVENT_CANCEL:
                # The client has disconnected, or the deadline has passed.
                if (task := self._tasks.pop(number, None)) is not None:
                    task.cancel()
            elif self._is_stopping:
                _fail(front, number, grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            elif len(payload) > self._max_message:
                text = f"Received message larger than max ({len(payload)} vs. {self._max_message})"
                _fail(front, number, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            elif len(self._tasks) >= self._max_calls:
                self._refuse(front, number, "calls")
            else:
                context = NativeContext(details, arrived)
                serving = self._serve(front, number, method, payload, context)
                self._tasks[number] = asyncio.create_task(serving)

    async def _serve(
        self,
        front: NativeGrpcFront,
        number: int,
        method: int,
        payload: bytes,
        context: NativeContext,
    ) -> None:
        """Serve a call, or refuse it if it has waited too long."""
        handler, may_be_shed, is_long = self._methods[method]
        try:
            now = time.monotonic()
            if may_be_shed and not self._codel.admit(now - context.arrived, now):
                self._refuse(front, number, "waited")
                return
            try:
                response = await handler(payload, context)
            except grpc.aio.AbortError:
                context.fail(front, number)
            else:
                if front.respond(number, response, None, None) and is_long:
                    self._unread.add(context.peer(), len(response))
        except asyncio.CancelledError:
            # This has no effect if the client has disconnected.
            _fail(front, number, grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            raise
        except Exception:
            _LOG.exception("unexpected error")
            _fail(front, number, grpc.StatusCode.INTERNAL, "internal error")
        finally:
            self._tasks.pop(number, None)

    def _refuse(self, front: NativeGrpcFront, number: int, bound: str) -> None:
        message, trailing, counts = self._refusal
        counts[bound] += 1
        front.fail(number, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message, trailing)


def _fail(front: NativeGrpcFront, number: int, code: grpc.StatusCode, message: str) -> None:
    front.fail(number, code.value[0], message)
