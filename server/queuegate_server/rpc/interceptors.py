"""What stands around every call of our own services: a visible tuple for each kind.

These are plain functions that wrap a handler once, when it is registered.
`grpc.aio.ServerInterceptor` would run for each call and costs more than a
decision does.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import grpc.aio

from queuegate_server.rpc.access_log import AccessLog
from queuegate_server.rpc.errors import TooMuchWork

Context = grpc.aio.ServicerContext[bytes, bytes]
Unary = Callable[[bytes, Context], Awaitable[bytes]]
Stream = Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]
AtOnce = Callable[[bytes], bytes | None]
"""Answers a request without waiting and without failing, or not at all."""

_LOG = logging.getLogger("queuegate_server.rpc")


def nothing_at_once(_data: bytes) -> None:
    """Leave every request to the handler."""


def unless_logged(at_once: AtOnce) -> AtOnce:
    """Leave requests to the handler while each call is logged."""

    def quiet(data: bytes) -> bytes | None:
        # Asked for each call: the level may change while we serve.
        return None if _LOG.isEnabledFor(logging.DEBUG) else at_once(data)

    return quiet


def end_with_status(method: str, handler: Unary) -> Unary:
    """End the call with the status of whatever is raised, never with its text, unless it is
    meant for callers; and log it. A call that succeeds is logged at level debug only.
    """

    async def answered(data: bytes, context: Context) -> bytes:
        # Asked for each call: the level may change while we serve.
        if _LOG.isEnabledFor(logging.DEBUG):
            return await logged(data, context)
        try:
            return await handler(data, context)
        except Exception as error:  # the boundary: every fault becomes a status
            await AccessLog(method, context).fail(error)

    async def logged(data: bytes, context: Context) -> bytes:
        line = AccessLog(method, context, time.perf_counter())
        try:
            answer = await handler(data, context)
        except Exception as error:
            await line.fail(error)
        except BaseException:
            line.write("CANCELLED")
            raise
        line.write("OK")
        return answer

    return answered


def end_stream_with_status(method: str, handler: Stream) -> Stream:
    """Do for streams what `end_with_status` does for single calls."""

    async def answered(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        line = AccessLog(method, context, time.perf_counter())
        try:
            async for response in handler(requests, context):
                yield response
        except Exception as error:  # the boundary: every fault becomes a status
            await line.fail(error)
        except BaseException:
            line.write("CANCELLED")
            raise
        line.write("OK")

    return answered


class CallLimit:
    """Bounds how many calls are in progress at once; refuses more at once.

    Streams, which stay open for as long as their callers like, may be half of them, so that
    single calls always find a place. The bound of gRPC itself would refuse health checks as
    well, and give no reason. Used from one event loop.
    """

    def __init__(self, most: int) -> None:
        """Take the bound."""
        self._most = most
        self._running = 0
        self._streams = 0
        self.refused = {"calls": 0, "streams": 0, "waited": 0}
        """How many calls have been refused so far, by the bound that was reached."""

    @property
    def most(self) -> int:
        """The bound."""
        return self._most

    @property
    def most_streams(self) -> int:
        """How many of them may be streams."""
        return max(1, self._most // 2)

    @property
    def running(self) -> int:
        """How many calls are in progress."""
        return self._running

    @property
    def streams(self) -> int:
        """How many of them are streams."""
        return self._streams

    def use(self, most: int) -> None:
        """Use another bound from now on; calls in progress go on."""
        self._most = most

    def unary(self, _method: str, handler: Unary) -> Unary:
        """Bound a single call."""

        async def limited(data: bytes, context: Context) -> bytes:
            self._enter()
            try:
                return await handler(data, context)
            finally:
                self._running -= 1

        return limited

    def stream(self, _method: str, handler: Stream) -> Stream:
        """Bound a stream, for as long as it is open."""

        async def limited(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            if self._streams >= self.most_streams:
                self.refused["streams"] += 1
                raise TooMuchWork(
                    f"{self.most_streams} streams are open, which is the most at once"
                )
            self._enter()
            self._streams += 1
            try:
                async for response in handler(requests, context):
                    yield response
            finally:
                self._streams -= 1
                self._running -= 1

        return limited

    def _enter(self) -> None:
        if self._running >= self._most:
            self.refused["calls"] += 1
            raise TooMuchWork(f"{self._most} calls are in progress, which is the most at once")
        self._running += 1


class Tracer(Protocol):
    """Puts spans around calls."""

    def unary(self, method: str, handler: Unary) -> Unary:
        """Trace a single call."""

    def stream(self, method: str, handler: Stream) -> Stream:
        """Trace a stream."""


def around_call(
    limit: CallLimit, tracer: Tracer | None
) -> tuple[Callable[[str, Unary], Unary], ...]:
    """Return what stands around a single call, outermost first: refusals end as other
    errors do, and a span sees how.
    """
    traced = () if tracer is None else (tracer.unary,)
    return (*traced, end_with_status, limit.unary)


def around_stream(
    limit: CallLimit, tracer: Tracer | None
) -> tuple[Callable[[str, Stream], Stream], ...]:
    """Return what stands around a stream, outermost first."""
    traced = () if tracer is None else (tracer.stream,)
    return (*traced, end_stream_with_status, limit.stream)
