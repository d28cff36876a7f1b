"""The interceptors of every call of our own services, as functions that wrap a handler.

They wrap a handler once, when it is registered: a `grpc.aio.ServerInterceptor` would run for each
call, and costs more than a decision.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import grpc
import grpc.aio

from queuegate_server.observe.counters import MethodCounters
from queuegate_server.rpc.access_log import AccessLog
from queuegate_server.rpc.errors import Overloaded

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[bytes, Context], Awaitable[bytes]]
Stream = Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]

_LOG = logging.getLogger("queuegate_server.rpc")


def count_unary(counters: MethodCounters, handler: Unary) -> Unary:
    """Count the calls of a unary method."""

    async def counted(data: bytes, context: Context) -> bytes:
        counters.started += 1
        start = time.perf_counter()
        try:
            response = await handler(data, context)
        except BaseException as error:
            counters.end(_code(error, context), time.perf_counter() - start)
            del data  # as in end_unary_with_status
            raise
        counters.end("OK", time.perf_counter() - start)
        return response

    return counted


def count_stream(counters: MethodCounters, handler: Stream) -> Stream:
    """Count the calls of a streaming method, when they end."""

    async def counted(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        counters.started += 1
        start = time.perf_counter()
        code = "OK"
        try:
            async for response in handler(requests, context):
                yield response
        except BaseException as error:
            code = _code(error, context)
            raise
        finally:
            counters.end(code, time.perf_counter() - start)

    return counted


def end_unary_with_status(method: str, handler: Unary) -> Unary:
    """End a call with the status of any error that its handler raises, and log the call.

    Calls that succeed are logged at level debug only. gRPC keeps the exception that ends a call,
    with its frames, until the garbage collector finds them: what takes memory is deleted before.
    """

    async def answered(data: bytes, context: Context) -> bytes:
        # Asked for each call, because the level may change while the server runs.
        if _LOG.isEnabledFor(logging.DEBUG):
            return await logged(data, context)
        try:
            return await handler(data, context)
        except Exception as error:  # the boundary: every error becomes a status
            del data
            await AccessLog(method, context).abort(error)

    async def logged(data: bytes, context: Context) -> bytes:
        log = AccessLog(method, context, time.perf_counter())
        try:
            response = await handler(data, context)
        except Exception as error:
            del data
            await log.abort(error)
        except BaseException:
            log.log_end("CANCELLED")
            raise
        log.log_end("OK")
        return response

    return answered


def end_stream_with_status(method: str, handler: Stream) -> Stream:
    """Do for a streaming method what `end_unary_with_status` does for a unary one."""

    async def answered(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        log = AccessLog(method, context, time.perf_counter())
        try:
            async for response in handler(requests, context):
                yield response
        except Exception as error:  # the boundary: every error becomes a status
            await log.abort(error)
        except BaseException:
            log.log_end("CANCELLED")
            raise
        log.log_end("OK")

    return answered


class ConcurrencyLimiter:
    """Bounds how many unary calls are in progress, and refuses more at once.

    gRPC's own bound would also refuse health checks, and give no reason.
    """

    def __init__(self, limit: int) -> None:
        """Start without calls."""
        self.limit = limit
        """How many calls may be in progress."""
        self.running = 0
        """How many calls are in progress."""
        self.refused = dict.fromkeys(("calls", "waited", "incomplete", "unread", "bytes"), 0)
        """How many calls have been refused, by the bound that was reached."""

    def reconfigure(self, limit: int) -> None:
        """Apply another bound from now on; calls in progress go on."""
        self.limit = limit

    def unary(self, handler: Unary) -> Unary:
        """Bound a unary method."""

        async def limited(data: bytes, context: Context) -> bytes:
            with self.room():
                return await handler(data, context)

        return limited

    @contextmanager
    def room(self) -> Iterator[None]:
        """Count a call as in progress; raise Overloaded if there is no room for it."""
        if self.running >= self.limit:
            self.refused["calls"] += 1
            raise Overloaded(f"{self.limit} calls are in progress, which is the limit")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def _code(error: BaseException, context: Context) -> str:
    """Return the status code of a call that raised: `abort` has set it, a cancelled call has
    none.
    """
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        # None for a call without a deadline, although the types say otherwise.
        remaining: float | None = context.time_remaining()
        is_late = remaining is not None and remaining <= 0
        return "DEADLINE_EXCEEDED" if is_late else "CANCELLED"
    # None if nothing was set, likewise.
    code: grpc.StatusCode | None = context.code()
    return code.name if code is not None else "UNKNOWN"
