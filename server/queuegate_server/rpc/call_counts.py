"""Counts calls as `grpc_server_*` metrics do, around everything else."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from queuegate_server.rpc.interceptors import AtOnce, Context, Stream, Unary

if TYPE_CHECKING:
    import grpc


class MethodCalls(Protocol):
    """Where the calls of one method are counted."""

    def start(self) -> None:
        """Count a call that begins."""

    def end(self, code: str, seconds: float) -> None:
        """Count a call that has ended, with the name of its status."""


class CallCounts(Protocol):
    """Where calls are counted."""

    def of_method(self, kind: str, service: str, method: str) -> MethodCalls:
        """Return where those of a method are."""


def count_calls(calls: MethodCalls, at_once: AtOnce, handler: Unary) -> Unary:
    """Count single calls. The handler gets those that are not answered at once."""

    async def counted(data: bytes, context: Context) -> bytes:
        calls.start()
        start = time.perf_counter()
        try:
            response = at_once(data)
            if response is None:
                response = await handler(data, context)
        except BaseException as error:
            calls.end(_code(error, context), time.perf_counter() - start)
            raise
        calls.end("OK", time.perf_counter() - start)
        return response

    return counted


def count_at_once(calls: MethodCalls, at_once: AtOnce) -> AtOnce:
    """Count the single calls that are answered at once."""

    def counted(data: bytes) -> bytes | None:
        start = time.perf_counter()
        response = at_once(data)
        if response is not None:
            calls.start()
            calls.end("OK", time.perf_counter() - start)
        return response

    return counted


def count_streams(calls: MethodCalls, handler: Stream) -> Stream:
    """Count streams, when they end."""

    async def counted(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        calls.start()
        start = time.perf_counter()
        code = "OK"
        try:
            async for response in handler(requests, context):
                yield response
        except BaseException as error:
            code = _code(error, context)
            raise
        finally:
            calls.end(code, time.perf_counter() - start)

    return counted


def _code(error: BaseException, context: Context) -> str:
    """Return the status of a call that raised: `abort` has set it, a cancelled one has none."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        # None for a call without a deadline, though the types say otherwise.
        remaining: float | None = context.time_remaining()
        late = remaining is not None and remaining <= 0
        return "DEADLINE_EXCEEDED" if late else "CANCELLED"
    # None where nothing was set, likewise.
    code: grpc.StatusCode | None = context.code()
    return code.name if code is not None else "UNKNOWN"
