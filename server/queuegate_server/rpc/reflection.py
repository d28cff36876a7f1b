"""Server reflection, with streams that end when the server drains."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

from grpc_reflection.v1alpha import reflection, reflection_pb2

from queuegate_server.rpc.authentication import Context
from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.settings.callers import Role

SERVICE: Final[str] = reflection.SERVICE_NAME

T = TypeVar("T")


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    """Answers what the services and their messages are."""

    def __init__(self, services: Sequence[str], draining: asyncio.Event, gate: Authorizer) -> None:
        """Take the names of the services, the event that ends streams, and who may ask."""
        super().__init__(services)
        self._draining = draining
        self._gate = gate

    async def ServerReflectionInfo(
        self,
        request_iterator: AsyncIterator[reflection_pb2.ServerReflectionRequest],
        unused_context: Context,
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """Answer each request, until the caller has sent all or the server drains."""
        await self._gate.admit_or_abort(SERVICE, Role.READ, unused_context)
        requests = _until(self._draining, request_iterator)
        async for response in super().ServerReflectionInfo(requests, unused_context):
            yield response


async def _until(ended: asyncio.Event, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the items, and no more once the event is set."""
    ending = asyncio.create_task(ended.wait())
    reading: asyncio.Task[T | None] | None = None
    try:
        while not ending.done():
            reading = asyncio.create_task(_next(items))
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            item = reading.result() if reading.done() else None
            if item is None:
                return
            yield item
    finally:
        ending.cancel()
        if reading is not None:
            reading.cancel()


async def _next(items: AsyncIterator[T]) -> T | None:
    return await anext(items, None)
