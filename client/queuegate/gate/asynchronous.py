"""The gate for asyncio."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import ClassVar, Final, TypeAlias

import grpc

from queuegate import _channel
from queuegate._async_client import Client
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate.decision_record import Record
from queuegate.exceptions import ServerUnavailable
from queuegate.gate._async_methods import AsyncGateMethods
from queuegate.gate.checks import BrokenProtocol, read_response
from queuegate.gate.reflector import RELEASE_SECONDS, Reflector, log_exceptions
from queuegate.gate.silence import WATCH_SECONDS
from queuegate.v1 import sync_pb2

_STREAM_ENDED: Final = (grpc.RpcError, asyncio.InvalidStateError)
"""The exceptions raised by sending on a closed stream."""
_Response: TypeAlias = "sync_pb2.SyncResponse | BrokenProtocol"
_Stream: TypeAlias = "grpc.aio.StreamStreamCall[sync_pb2.SyncRequest, _Response]"


class Gate(AsyncGateMethods, Client):
    """An asyncio client that makes decisions in this process, as `queuegate.Gate` does.

    A gate belongs to the event loop that was running when it was created. In any other loop, checks
    that the gate cannot decide locally raise RuntimeError. Close a gate after use to stop its task
    and connection, or use it in an `async with` statement.
    """

    _OWNER: ClassVar = "gate"

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
        metadata: _channel.CallMetadata = (),
        interceptors: Iterable[grpc.aio.ClientInterceptor] = (),
        name: str = "",
        partitions: Iterable[str] = (),
        stale: float = 0.0,
        on_change: Callable[[], object] | None = None,
        on_decision: Callable[[Record], object] | None = None,
    ) -> None:
        """Create a gate. The arguments are the same as for `queuegate.Gate`, except that
        `on_change` and `on_decision` run on the event loop and must not be coroutine functions.

        Raises:
            RuntimeError: No event loop is running.
        """
        on_change = log_exceptions("on_change", on_change or _do_nothing)
        self._reflector = Reflector(
            name,
            partitions,
            stale=stale,
            on_change=lambda: self._loop.call_soon(on_change),
            on_decision=on_decision,
            wake=self._wake,
        )
        try:
            super().__init__(
                address,
                timeout=timeout,
                tls=tls,
                token_file=token_file,
                retry=retry,
                metadata=metadata,
                interceptors=interceptors,
            )
        except BaseException:
            self._reflector.close()
            raise
        self._decider = self._reflector.decider
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        """Wakes the sender when messages are due. Each stream has its own event."""
        self._running = self._loop.create_task(self._follow())

    async def close(self) -> None:
        """Close the gate and its connection, as `Client.close` does."""
        has_stream = self._reflector.has_stream
        self._reflector.close()
        self._wake()
        if has_stream:
            await asyncio.wait({self._running}, timeout=RELEASE_SECONDS)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await super().close()

    async def _let_others_run(self) -> None:
        await asyncio.sleep(0)

    def _wake(self) -> None:
        self._calls.check_loop()
        self._woken.set()

    async def _follow(self) -> None:
        """Keep a stream open until the gate is closed."""
        while True:
            try:
                failure = await self._open_stream(self._reflector.opened())
            except asyncio.CancelledError:
                # Reconnect unless this task was canceled, not just the stream.
                if self._running.cancelling():
                    raise
                failure = ServerUnavailable("the stream was cancelled", code="CANCELLED")
            pause = self._reflector.ended(failure)
            if self._reflector.is_closed:
                return
            await asyncio.sleep(pause)

    async def _open_stream(self, opened: sync_pb2.SyncRequest) -> Exception | None:
        """Send and receive messages until the stream ends. Return the error that ended it, or
        None.
        """
        self._woken = asyncio.Event()
        try:
            stream = self._calls.sync(read_response)
        except Exception as error:  # the channel is closed
            return error
        failure: Exception | None = None
        greeted = asyncio.Event()
        sending = self._send(stream, opened, greeted)
        tasks = [asyncio.create_task(each) for each in (sending, self._watch(stream))]
        try:
            async for response in stream:
                greeted.set()
                self._calls.has_worked = True
                self._reflector.receive(response)
        except grpc.RpcError as error:
            failure = self._calls.sync_failure(error)
        except Exception as error:  # a message breaks the protocol
            failure = error
        finally:
            stream.cancel()
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception) and not isinstance(result, _STREAM_ENDED):
                    failure = result
            with suppress(*_STREAM_ENDED):  # an interceptor may still read requests
                await stream.done_writing()
        return failure

    async def _send(
        self, stream: _Stream, opened: sync_pb2.SyncRequest, greeted: asyncio.Event
    ) -> None:
        """Send messages when they are due. Raises an error once the stream is closed."""
        number, woken = self._reflector.stream, self._woken
        await stream.write(opened)
        # Wait for the first response, because if the server rejects the stream, a failed write
        # would hide the status.
        await greeted.wait()
        while not self._reflector.is_closed:
            for request in self._reflector.due(number):
                await stream.write(request)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._reflector.idle_seconds):
                    await woken.wait()
            woken.clear()
        await stream.write(self._reflector.released())

    async def _watch(self, stream: _Stream) -> None:
        """Cancel the stream if the server is unresponsive or does not send a policy."""
        while not self._reflector.watch():  # noqa: ASYNC110 - waits for a time, not an event
            await asyncio.sleep(WATCH_SECONDS)
        stream.cancel()


def _do_nothing() -> None:
    """Do nothing. This is the default `on_change` callback."""
