"""Puts servicers behind their methods, as the contract's descriptors name them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.rpc.call_counts import (
    CallCounts,
    count_at_once,
    count_calls,
    count_streams,
)
from queuegate_server.rpc.interceptors import (
    AtOnce,
    CallLimit,
    Context,
    Stream,
    Tracer,
    Unary,
    around_call,
    around_stream,
    nothing_at_once,
    unless_logged,
)


class _Registers(Protocol):
    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None: ...
    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None: ...


@runtime_checkable
class _AnswersAtOnce(Protocol):
    """A transport that tries, before the handler of a method, what answers without waiting."""

    def answer_at_once(self, method: str, answer: AtOnce, /) -> None: ...


class Interceptors(NamedTuple):
    """What stands around the calls of all services."""

    limit: CallLimit
    gate: Authorizer
    calls: CallCounts
    tracer: Tracer | None = None


def register(
    server: _Registers,
    service: ServiceDescriptor,
    servicers: Sequence[object],
    interceptors: Interceptors,
) -> None:
    """Serve every method of a service with the servicers' method of the same name: of the
    first for callers whose groups are believed, of the second for the others.

    Messages are handed over as bytes. A servicer may have `at_once`, a mapping from names of
    methods to what is tried before their handlers, see AtOnce. Raises AttributeError if a
    method is missing, and KeyError if it has no role.
    """
    handlers = {
        method.name: _handler(server, method, servicers, interceptors) for method in service.methods
    }
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service.full_name, handlers),)
    )
    # As generated code does: each transport takes the form that it knows.
    server.add_registered_method_handlers(service.full_name, handlers)


def _handler(
    server: _Registers,
    method: MethodDescriptor,
    servicers: Sequence[object],
    interceptors: Interceptors,
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    limit, gate, calls, tracer = interceptors
    serve: list[Callable[..., Any]] = [getattr(servicer, method.name) for servicer in servicers]
    name = method.full_name
    service = method.containing_service.full_name
    if method.client_streaming:
        stream = gate.stream(name, *map(_stream, serve))
        for around in reversed(around_stream(limit, tracer)):
            stream = around(name, stream)
        counts = calls.of_method("bidi_stream", service, method.name)
        return grpc.stream_stream_rpc_method_handler(count_streams(counts, stream))
    unary = gate.unary(name, *map(_unary, serve))
    for intercept in reversed(around_call(limit, tracer)):
        unary = intercept(name, unary)
    counts = calls.of_method("unary", service, method.name)
    # A span needs the whole of a call.
    at_once = nothing_at_once if tracer else _at_once(gate, method, servicers)
    if at_once is not nothing_at_once and isinstance(server, _AnswersAtOnce):
        server.answer_at_once(f"/{service}/{method.name}", count_at_once(counts, at_once))
        at_once = nothing_at_once
    return grpc.unary_unary_rpc_method_handler(count_calls(counts, at_once, unary))


def _at_once(gate: Authorizer, method: MethodDescriptor, servicers: Sequence[object]) -> AtOnce:
    """Return what answers calls of a method before all that stands around its handler."""
    answering: list[AtOnce] = [
        getattr(servicer, "at_once", {}).get(method.name, nothing_at_once) for servicer in servicers
    ]
    if nothing_at_once in answering:
        return nothing_at_once
    return unless_logged(gate.at_once(method.full_name, *answering))


def _unary(serve: Callable[[bytes], Awaitable[bytes]]) -> Unary:
    async def handler(data: bytes, _context: Context) -> bytes:
        return await serve(data)

    return handler


def _stream(serve: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]) -> Stream:
    async def handler(requests: AsyncIterator[bytes], _context: Context) -> AsyncIterator[bytes]:
        async for response in serve(requests):
            yield response

    return handler
