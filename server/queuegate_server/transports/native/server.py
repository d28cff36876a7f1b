"""The transport of pygrpc-native: HTTP/2 and gRPC run in Rust, outside the interpreter lock.

Single calls come as events of its low-level API, a few at a time, and are answered by number.
Streams are few and long, so they go to a `grpc.aio` server behind it, over a Unix socket in a
folder that nobody else may enter; `peer()` of a stream is that socket.
"""

import asyncio
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from pygrpc_native import EVENT_CANCEL, NativeGrpcFront

from queuegate_server.load_shedding import CoDel
from queuegate_server.settings.limits import Connections
from queuegate_server.transports.channel_args import milliseconds
from queuegate_server.transports.choose import STREAMS_FOLDER, STREAMS_SOCKET
from queuegate_server.transports.native.context import Call, Handler, of_bytes, resume
from queuegate_server.transports.refusal import Refusal

_LOG = logging.getLogger("queuegate_server.transports.native.server")
_FLUSH_SECONDS: Final = 0.2
_MOST_EVENTS: Final = 10_000
_EVENTS_AT_ONCE: Final = 64
"""So many are taken before the event loop does something else."""
IO_THREADS: Final = 1
"""One carries more calls a second than the interpreter can answer; with two, each call costs a
tenth more processor time."""
_HEALTH: Final = "/grpc.health."

AtOnce = Callable[[bytes], bytes | None]


class _Served(NamedTuple):
    """How a method is served."""

    handler: Handler
    at_once: bool
    may_be_refused: bool
    answer: AtOnce | None
    """Tried before the handler."""


class NativeServer:
    """Serves what `grpc.aio.Server` serves, on one insecure TCP port.

    Used from the event loop on which it is started.
    """

    def __init__(
        self,
        behind: grpc.aio.Server,
        *,
        max_message: int,
        max_calls: int,
        connections: Connections,
        shares_port: bool,
        at_once: Collection[str],
        max_wait: float,
        refusal: Refusal,
    ) -> None:
        """Take the server that streams go to, the most bytes of a request, the most single
        calls in progress, bounds on connections, of which those on metadata and keep-alive
        hold, how many seconds a call may wait for its turn under overload, and how what is
        too much is refused.

        Methods named in `at_once` start within the event that brings the call, which saves
        a task for each. They must not use the current task before they first wait, nor
        what needs it, such as `asyncio.timeout` and `asyncio.TaskGroup`.
        """
        self._behind = behind
        self._max_message = max_message
        self._max_calls = max_calls
        self._connections = connections
        self._shares_port = shares_port
        self._at_once = frozenset(at_once)
        self._handlers: dict[str, Handler] = {}
        self._answers: dict[str, AtOnce] = {}
        self._table: list[_Served] = []
        self._waiting = CoDel(max_wait)
        self._refusal = refusal
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._front: NativeGrpcFront | None = None
        self._folder: str | None = None
        self._stopping = False

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]
    ) -> None:
        """Hand handlers to the server behind, which needs them so for its streams."""
        self._behind.add_generic_rpc_handlers(generic_rpc_handlers)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, Any]
    ) -> None:
        """Serve the single calls among the handlers of a service."""
        for name, handler in method_handlers.items():
            if not (handler.request_streaming or handler.response_streaming):
                self._handlers[f"/{service_name}/{name}"] = of_bytes(handler)

    def answer_at_once(self, method: str, answer: AtOnce) -> None:
        """Try this before the handler of a method that is named in `at_once`. It must not wait;
        None leaves a call to the handler. To answer so takes a tenth less than a coroutine.
        """
        self._answers[method] = answer

    def add_insecure_port(self, address: str) -> int:
        """Bind the port and return it; raise RuntimeError if it is taken."""
        if self._front is not None:
            raise RuntimeError("only one port is supported")
        try:
            self._front = NativeGrpcFront(
                address,
                [],
                io_threads=IO_THREADS,
                call_details=True,
                keepalive_time_ms=milliseconds(self._connections.keepalive_interval),
                keepalive_timeout_ms=milliseconds(self._connections.keepalive_timeout),
                max_metadata_size=self._connections.max_metadata,
                reuse_port=self._shares_port,
            )
        except OSError as error:
            raise RuntimeError(str(error)) from None
        return self._front.bound_port

    def add_secure_port(self, address: str, _credentials: grpc.ServerCredentials) -> int:
        """Refuse TLS, which this transport lacks: raises RuntimeError."""
        raise RuntimeError(f"{address}: no TLS")

    async def start(self) -> None:
        """Start to serve."""
        front = self._bound()
        self._folder = tempfile.mkdtemp(prefix=STREAMS_FOLDER)
        path = str(Path(self._folder) / STREAMS_SOCKET)
        self._behind.add_insecure_port(f"unix:{path}")
        await self._behind.start()
        front.set_fallback(path)
        self._table = [
            _Served(
                handler,
                method in self._at_once,
                # Who looks after this server must learn that it works. Others have been asked.
                not (method.startswith(_HEALTH) or method in self._answers),
                self._answers.get(method),
            )
            for method, handler in self._handlers.items()
        ]
        front.add_methods([(method, False) for method in self._handlers])
        front.start()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._receive, args=(front, loop), daemon=True).start()

    async def stop(self, grace: float | None) -> None:
        """Give calls under way so many seconds, and end.

        Until then new calls are answered, too: nothing but the end of its connection sends a
        client elsewhere, so one that is refused would only ask here again.
        """
        streams = asyncio.ensure_future(self._behind.stop(grace))
        if grace and self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        await streams
        await self._cut()
        # Closing drops answers and ends of streams that are not yet on the wire, and nothing
        # tells when they are.
        await asyncio.sleep(_FLUSH_SECONDS)
        self._stopping = True
        await self._cut()
        if self._front is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._front.close)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _cut(self) -> None:
        """End the calls that are under way now."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _bound(self) -> NativeGrpcFront:
        if self._front is None:
            raise RuntimeError("no port was added")
        return self._front

    def _receive(self, front: NativeGrpcFront, loop: asyncio.AbstractEventLoop) -> None:
        """Hand events to the event loop until the port is closed. Runs in its own thread."""
        # All that there are, so that none waits where it is not seen.
        while (events := front.recv_batch_details(_MOST_EVENTS)) is not None:
            now = time.monotonic()
            try:
                for begin in range(0, len(events), _EVENTS_AT_ONCE):
                    some = events[begin : begin + _EVENTS_AT_ONCE]
                    loop.call_soon_threadsafe(self._take, some, now)
            except RuntimeError:  # the loop has ended
                front.close()
                return

    def _take(self, events: list[tuple[Any, ...]], arrived: float) -> None:
        front = self._bound()
        for kind, number, method, payload, _, details in events:
            if kind == EVENT_CANCEL:
                # The caller is gone, or the deadline has passed.
                if (task := self._tasks.get(number)) is not None:
                    task.cancel()
            elif self._stopping:
                _refuse(front, number, grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            elif len(payload) > self._max_message:
                _refuse(
                    front,
                    number,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"Received message larger than max ({len(payload)} vs. {self._max_message})",
                )
            elif len(self._tasks) >= self._max_calls:
                self._refuse_as_too_much(front, number, "calls")
            else:
                served = self._table[method]
                if served.answer is not None and self._answer_now(
                    front, number, served.answer, payload, arrived
                ):
                    continue
                work = self._answer(front, number, served, payload, Call(details, arrived))
                if served.at_once:
                    self._start(number, work)
                else:
                    self._keep(number, asyncio.create_task(work))

    def _answer_now(
        self, front: NativeGrpcFront, number: int, answer: AtOnce, payload: bytes, arrived: float
    ) -> bool:
        """Answer a call, or refuse it if its turn comes too late; False: ask its handler."""
        now = time.monotonic()
        if not self._waiting.admit(now - arrived, now):
            self._refuse_as_too_much(front, number, "waited")
            return True
        try:
            response = answer(payload)
            if response is None:
                return False
            front.respond(number, response, None, None)
        except Exception:
            _LOG.exception("unexpected error")
            _refuse(front, number, grpc.StatusCode.INTERNAL, "internal error")
        return True

    async def _answer(
        self, front: NativeGrpcFront, number: int, served: _Served, payload: bytes, call: Call
    ) -> None:
        """Answer a call, unless its turn comes too late."""
        try:
            now = time.monotonic()
            if served.may_be_refused and not self._waiting.admit(now - call.arrived, now):
                self._refuse_as_too_much(front, number, "waited")
                return
            try:
                response = await served.handler(payload, call)
            except grpc.aio.AbortError:
                call.fail(front, number)
            else:
                front.respond(number, response, None, None)
        except asyncio.CancelledError:
            # To a caller who is gone this does nothing.
            _refuse(front, number, grpc.StatusCode.UNAVAILABLE, "the server is shutting down")
            raise
        except Exception:
            _LOG.exception("unexpected error")
            _refuse(front, number, grpc.StatusCode.INTERNAL, "internal error")

    def _refuse_as_too_much(self, front: NativeGrpcFront, number: int, bound: str) -> None:
        message, trailing, counts = self._refusal
        counts[bound] += 1
        front.fail(number, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message, trailing)

    def _start(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        """Run a call up to where it has to wait; only then make a task of it."""
        context = copy_context()
        try:
            waited_for = context.run(work.send, None)
        # What a call wants to wait for may be cancelled already.
        except (StopIteration, asyncio.CancelledError):
            return
        self._keep(number, asyncio.create_task(resume(work, waited_for), context=context))

    def _keep(self, number: int, task: asyncio.Task[None]) -> None:
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))


def _refuse(front: NativeGrpcFront, number: int, code: grpc.StatusCode, message: str) -> None:
    front.fail(number, code.value[0], message)
