"""Interceptors for our own services: functions that wrap a handler when it is registered.

A `grpc.aio.ServerInterceptor` would run on every call and cost more than a decision.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import grpc
import grpc.aio

from queuegate_server.observe.counters import MethodCounters
from queuegate_server.rpc import access_log
from queuegate_server.rpc.errors import Overloaded

Context = grpc.aio.ServicerContext[bytes, bytes]
UnaryMethod = Callable[[bytes, Context], Awaitable[bytes]]
StreamMethod = Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]

_LOG = logging.getLogger("queuegate_server.rpc")
_BOUNDS: Final = ("calls", "waited", "incomplete", "unread", "bytes")


def end_unary(method: str, counters: MethodCounters, handler: UnaryMethod) -> UnaryMethod:
    """Wrap a unary method to count and log its calls and convert exceptions to statuses.

    gRPC keeps a call's exception and its stack frames until the next garbage collection, so the
    wrapper deletes its reference to the request of a failed call.
    """

    async def ended(data: bytes, context: Context) -> bytes:
        counters.started += 1
        start = time.perf_counter()
        try:
            response = await handler(data, context)
        except BaseException as error:
            del data
            await _fail(method, counters, context, start, error)
            raise
        counters.end("OK", time.perf_counter() - start)
        # Check the level on each call, because it may change at runtime.
        if _LOG.isEnabledFor(logging.DEBUG):
            access_log.log_end(method, context, start, "OK")
        return response

    return ended


def end_stream(method: str, counters: MethodCounters, handler: StreamMethod) -> StreamMethod:
    """Wrap a streaming method to count and log its calls and convert exceptions to statuses."""

    async def ended(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        counters.started += 1
        start = time.perf_counter()
        try:
            async for response in handler(requests, context):
                yield response
        except BaseException as error:
            await _fail(method, counters, context, start, error)
            raise
        counters.end("OK", time.perf_counter() - start)
        access_log.log_end(method, context, start, "OK")

    return ended


async def _fail(
    method: str, counters: MethodCounters, context: Context, start: float, error: BaseException
) -> None:
    """Count and log a failed call; abort it with a status unless it was cancelled."""
    try:
        if isinstance(error, Exception):  # at this boundary, every error becomes a status
            await access_log.abort(method, context, error, start)
        access_log.log_end(method, context, start, "CANCELLED")
    except BaseException as end:
        counters.end(_code(end, context), time.perf_counter() - start)
        raise
    counters.end(_code(error, context), time.perf_counter() - start)


@dataclass(slots=True, eq=False)
class ConcurrencyLimiter:
    """Limits the number of unary calls in progress, and refuses additional calls immediately.

    gRPC's own limit applies even to health checks, and its refusals give no reason.
    """

    limit: int
    """The maximum number of calls in progress. Lowering it does not abort running calls."""
    running: int = 0
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_BOUNDS, 0))
    """The number of refused calls, by limit."""

    def reconfigure(self, limit: int) -> None:
        """Apply a new limit."""
        self.limit = limit

    def unary(self, handler: UnaryMethod) -> UnaryMethod:
        """Wrap a unary method so that its calls count toward the limit."""

        async def limited(data: bytes, context: Context) -> bytes:
            with self.permit():
                return await handler(data, context)

        return limited

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Count a call as in progress until the context exits. Raises Overloaded at the limit."""
        if self.running >= self.limit:
            self.refused["calls"] += 1
            raise Overloaded(f"{self.limit} calls are in progress, which is the limit")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def _code(error: BaseException, context: Context) -> str:
    """Return a failed call's status name; for a cancelled call, it depends on the deadline."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        # None if the call has no deadline, contrary to the type stubs.
        remaining: float | None = context.time_remaining()
        is_late = remaining is not None and remaining <= 0
        return "DEADLINE_EXCEEDED" if is_late else "CANCELLED"
    code: grpc.StatusCode | None = context.code()  # None if not set, contrary to the stubs
    return code.name if code is not None else "UNKNOWN"
