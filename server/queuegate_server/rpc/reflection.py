"""Server reflection, versions 1 and 1alpha: the library's servicer, behind authorization, with
streams that end when the server drains.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, TypeVar

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.rpc.descriptors import DescribedPool
from queuegate_server.rpc.interceptors import Context
from queuegate_server.settings.callers import Role

ALPHA: Final[str] = reflection.SERVICE_NAME
STABLE: Final = "grpc.reflection.v1.ServerReflection"

T = TypeVar("T")


class ReflectionServicer(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    """Describes the services and their messages."""

    def __init__(
        self, services: Sequence[str], draining: asyncio.Event, authorizer: Authorizer
    ) -> None:
        """Describe services, given by their full names, to callers with the role read."""
        super().__init__([*services, ALPHA, STABLE], DescribedPool())
        self._draining = draining
        self._authorizer = authorizer

    async def ServerReflectionInfo(
        self,
        request_iterator: AsyncIterator[reflection_pb2.ServerReflectionRequest],
        unused_context: Context,
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """Answer each request, until the caller ends the stream or the server drains."""
        await self._authorizer.admit_or_abort(STABLE, Role.READ, unused_context)
        requests = _until(self._draining, request_iterator)
        async for response in super().ServerReflectionInfo(requests, unused_context):
            yield response


def add_reflection(servicer: ReflectionServicer, server: Any) -> None:
    """Serve reflection, under the names of both versions, on a server."""
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STABLE, handlers),))
    server.add_registered_method_handlers(STABLE, handlers)


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
