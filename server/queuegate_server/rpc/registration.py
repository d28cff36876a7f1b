"""Puts servicers behind their methods, as the contract's descriptors name them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from queuegate_server.rpc.interceptors import (
    CallLimit,
    Context,
    Stream,
    Unary,
    around_call,
    around_stream,
)


class _Registers(Protocol):
    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None: ...
    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None: ...


def register(
    server: _Registers, service: ServiceDescriptor, servicer: object, limit: CallLimit
) -> None:
    """Serve every method of a service with the servicer's method of the same name.

    Messages are handed over as bytes. Raises AttributeError if one is missing.
    """
    handlers = {
        method.name: _handler(method, getattr(servicer, method.name), limit)
        for method in service.methods
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service.full_name, handlers),)
    )
    # As generated code does: each transport takes the form that it knows.
    server.add_registered_method_handlers(service.full_name, handlers)


def _handler(
    method: MethodDescriptor, serve: Callable[..., Any], limit: CallLimit
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    name = method.full_name
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(_stream(name, serve, limit))
    return grpc.unary_unary_rpc_method_handler(_unary(name, serve, limit))


def _unary(name: str, serve: Callable[[bytes], Awaitable[bytes]], limit: CallLimit) -> Unary:
    async def handler(data: bytes, _context: Context) -> bytes:
        return await serve(data)

    wrapped: Unary = handler
    for intercept in reversed(around_call(limit)):
        wrapped = intercept(name, wrapped)
    return wrapped


def _stream(
    name: str,
    serve: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]],
    limit: CallLimit,
) -> Stream:
    async def handler(requests: AsyncIterator[bytes], _context: Context) -> AsyncIterator[bytes]:
        async for response in serve(requests):
            yield response

    wrapped: Stream = handler
    for intercept in reversed(around_stream(limit)):
        wrapped = intercept(name, wrapped)
    return wrapped
