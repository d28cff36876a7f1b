"""Server reflection: the library's servicer, behind authorization, with streams that end when the
server drains.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final, TypeVar

from grpc_reflection.v1alpha import reflection, reflection_pb2

from queuegate_server.rpc.authentication import Context
from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.settings.callers import Role

SERVICE: Final[str] = reflection.SERVICE_NAME

T = TypeVar("T")


class ReflectionServicer(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    """Describes the services and their messages."""

    def __init__(
        self, services: Sequence[str], draining: asyncio.Event, authorizer: Authorizer
    ) -> None:
        """Describe services, given by their full names, to callers with the role read."""
        super().__init__(services)
        self._draining = draining
        self._authorizer = authorizer

    async def ServerReflectionInfo(
        self,
        request_iterator: AsyncIterator[reflection_pb2.ServerReflectionRequest],
        unused_context: Context,
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """Answer each request, until the caller ends the stream or the server drains."""
        await self._authorizer.admit_or_abort(SERVICE, Role.READ, unused_context)
        requests = _until(self._draining, request_iterator)
        async for response in super().ServerReflectionInfo(requests, unused_context):
            yield response


async def _until(ended: asyncio.Event, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield items until the event is set."""
    ending = asyncio.create_task(ended.wait())
    reading: asyncio.Task[T | None] | None = None
    try:
        while not ending.done():
            reading = asyncio.ensure_future(anext(items, None))
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            item = reading.result() if reading.done() else None
            if item is None:
                return
            yield item
    finally:
        ending.cancel()
        if reading is not None:
            reading.cancel()
