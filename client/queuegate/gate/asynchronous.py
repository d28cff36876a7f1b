"""The gate for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeAlias

import grpc

from queuegate._async_client import Client
from queuegate._settings import DEFAULT_RETRY, FilePath, Retry, Tls
from queuegate.gate._async_methods import AsyncGateMethods
from queuegate.gate.reflector import RELEASE_SECONDS, GateState, Reflector
from queuegate.v1 import sync_pb2

_Outgoing: TypeAlias = "asyncio.Queue[sync_pb2.SyncRequest | None]"


class Gate(AsyncGateMethods, Client):
    """A client for asyncio that decides in this process, as `queuegate.Gate` does.

    It belongs to the event loop in which it is created.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: float = 1.0,
        tls: Tls | None = None,
        token_file: FilePath | None = None,
        retry: Retry = DEFAULT_RETRY,
        name: str = "",
        partitions: Iterable[str] = (),
        stale: float = 0.0,
        outbox: FilePath | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """Create a gate with the arguments of `queuegate.Gate`; `on_change` is called on the event
        loop.

        Raises RuntimeError outside a running event loop.
        """
        super().__init__(address, timeout=timeout, tls=tls, token_file=token_file, retry=retry)
        self._loop = asyncio.get_running_loop()
        self._woken: _Outgoing = asyncio.Queue()
        self._reflector = Reflector(
            name, partitions, stale=stale, outbox=outbox, on_change=on_change, wake=self._wake
        )
        self._decide = self._reflector.decider.decide
        self._running = self._loop.create_task(self._run())

    async def close(self) -> None:
        """Close the gate and its connection, as Client.close does."""
        is_live = self._reflector.state is GateState.LIVE
        self._reflector.close()
        self._wake()
        if is_live:
            await asyncio.wait({self._running}, timeout=RELEASE_SECONDS)
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        await super().close()

    def _wake(self) -> None:
        self._woken.put_nowait(None)

    async def _run(self) -> None:
        """Keep a stream open."""
        while True:
            outgoing: _Outgoing = asyncio.Queue()
            self._woken = outgoing
            stream = self._calls.sync(self._requests(outgoing))
            watching = asyncio.create_task(self._cancel_if_dead(stream))
            try:
                async for response in stream:
                    answer = self._reflector.receive(response)
                    if answer is not None:
                        outgoing.put_nowait(answer)
                code, why = "OK", ""
            except grpc.aio.AioRpcError as error:
                code, why = error.code().name, error.details() or ""
            except asyncio.CancelledError:
                # That of the stream, or of this task?
                if self._running.cancelling():
                    raise
                code, why = "CANCELLED", ""
            except Exception as error:  # a message breaks the protocol
                code, why = "INTERNAL", repr(error)
            finally:
                watching.cancel()
                stream.cancel()
            pause = self._reflector.ended(code, why)
            if self._reflector.is_closed:
                return
            await asyncio.sleep(pause)

    async def _requests(self, outgoing: _Outgoing) -> AsyncIterator[sync_pb2.SyncRequest]:
        """Return what is to be sent, as long as this is the stream."""
        yield self._reflector.opened()
        while outgoing is self._woken and not self._reflector.is_closed:
            for request in self._reflector.due():
                yield request
            try:
                async with asyncio.timeout(self._reflector.idle_seconds):
                    answer = await outgoing.get()
            except TimeoutError:
                continue
            if answer is not None:
                yield answer
        if self._reflector.is_closed:
            yield self._reflector.released()

    async def _cancel_if_dead(self, stream: "grpc.aio.Call") -> None:
        while not self._reflector.is_dead:  # noqa: ASYNC110 - it is about time
            await asyncio.sleep(max(0.05, self._reflector.idle_seconds))
        stream.cancel()
