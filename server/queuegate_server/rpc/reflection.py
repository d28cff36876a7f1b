"""Server reflection, versions v1 and v1alpha.

Extends the library's servicer with authorization, comments from the contract, and lookup by method
name. Closes its streams when the server drains.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final, TypeVar

import grpc
from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.rpc.interceptors import Context
from queuegate_server.settings.callers import Role

ALPHA: Final[str] = reflection.SERVICE_NAME
STABLE: Final = "grpc.reflection.v1.ServerReflection"
_POOL: Final[Any] = descriptor_pool.Default()

T = TypeVar("T")


class ReflectionServicer(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    """Describes the services and their messages."""

    def __init__(
        self, services: Sequence[str], draining: asyncio.Event, authorizer: Authorizer
    ) -> None:
        """Describe `services`, given by their full names, to callers with the read role."""
        super().__init__([*services, ALPHA, STABLE], _CommentedPool())
        self._draining = draining
        self._authorizer = authorizer

    async def ServerReflectionInfo(
        self,
        request_iterator: AsyncIterator[reflection_pb2.ServerReflectionRequest],
        unused_context: Context,
    ) -> AsyncIterator[reflection_pb2.ServerReflectionResponse]:
        """Respond to each request until the caller closes the stream or the server drains."""
        await self._authorizer.admit_or_abort(STABLE, Role.READ, unused_context)
        requests = _until(self._draining, request_iterator)
        async for response in super().ServerReflectionInfo(requests, unused_context):
            yield response


def add_reflection(servicer: ReflectionServicer, server: Any) -> None:
    """Register both versions of reflection with a server."""
    _add_stable_reflection()
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STABLE, handlers),))
    server.add_registered_method_handlers(STABLE, handlers)


def _add_stable_reflection() -> None:
    """Add reflection v1, identical to v1alpha on the wire, to protobuf's default pool."""
    alpha = FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(alpha)
    text = text_format.MessageToString(alpha)
    text = text.replace("grpc.reflection.v1alpha", "grpc.reflection.v1")
    stable = text_format.Parse(text, FileDescriptorProto())
    stable.name = "grpc/reflection/v1/reflection.proto"
    _POOL.AddSerializedFile(stable.SerializeToString())


class _CommentedFile:
    """A file descriptor. It includes comments if the file is part of the contract."""

    def __init__(self, file: FileDescriptor, contract: Mapping[str, FileDescriptorProto]) -> None:
        self.name: str = file.name
        self._file = file
        self._contract = contract

    @property
    def dependencies(self) -> "Sequence[_CommentedFile]":
        return [_CommentedFile(each, self._contract) for each in self._file.dependencies]

    def CopyToProto(self, proto: FileDescriptorProto) -> None:
        if (commented := self._contract.get(self.name)) is not None:
            proto.CopyFrom(commented)
        else:
            self._file.CopyToProto(proto)


class _CommentedPool:
    """protobuf's default pool, plus comments and lookup by method name. Failed lookups raise
    KeyError.
    """

    def __init__(self) -> None:
        contract = (resources.files("queuegate.v1") / "contract.binpb").read_bytes()
        self._contract = {file.name: file for file in FileDescriptorSet.FromString(contract).file}

    def __getattr__(self, name: str) -> Any:
        return getattr(_POOL, name)

    def FindFileByName(self, name: str) -> _CommentedFile:
        return _CommentedFile(_POOL.FindFileByName(name), self._contract)

    def FindFileContainingSymbol(self, symbol: str) -> _CommentedFile:
        try:
            file = _POOL.FindFileContainingSymbol(symbol)
        except KeyError:
            service, _, method = symbol.rpartition(".")
            file = _POOL.FindServiceByName(service).methods_by_name[method].containing_service.file
        return _CommentedFile(file, self._contract)


async def _until(ended: asyncio.Event, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield items until `ended` is set."""
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
