"""Registers servicers with a transport, each method behind its interceptors."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from queuegate_server.observe.counters import MethodCounters
from queuegate_server.observe.tracing import Tracer
from queuegate_server.rpc.authorization import Authorizer
from queuegate_server.rpc.interceptors import ConcurrencyLimiter, end_stream, end_unary


class _Registers(Protocol):
    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None: ...
    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None: ...


class Interceptors(NamedTuple):
    """The interceptors of all services. Outermost first: the tracer, the counter with the status of
    errors, the concurrency limiter, the authorizer. Thus refusals end as other errors do, and
    counters and spans see how a call ended.
    """

    counters: list[MethodCounters]
    tracer: Tracer | None
    limiter: ConcurrencyLimiter
    authorizer: Authorizer


def register(
    server: _Registers, service: ServiceDescriptor, servicer: object, interceptors: Interceptors
) -> None:
    """Serve every method of a service with the servicer's method of the same name.

    Messages are passed as bytes. A method's parameters determine what it gets: `trusted`, whether
    the groups that its caller asserts are used; `room`, which the method enters while it waits. A
    unary method without `room` takes room from its beginning to its end, and a stream takes none:
    its service bounds it. Raises AttributeError if a method is missing, and KeyError if it has no
    role.
    """
    handlers = {
        method.name: _handler(method, getattr(servicer, method.name), interceptors)
        for method in service.methods
    }
    # Both ways, as generated code does: each transport takes the form that it knows.
    name = service.full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    server.add_registered_method_handlers(name, handlers)


def _without_trust(serve: Callable[..., Any]) -> Callable[..., Any]:
    def without_trust(data: bytes, *, trusted: bool) -> Any:  # noqa: ARG001 - it uses no groups
        return serve(data)

    return without_trust


def _handler(
    method: MethodDescriptor, serve: Callable[..., Any], interceptors: Interceptors
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    counters, tracer, limiter, authorizer = interceptors
    parameters = inspect.signature(serve).parameters
    if takes_room := "room" in parameters:
        serve = partial(serve, room=limiter.room)
    if "trusted" not in parameters:
        serve = _without_trust(serve)
    name, service = method.full_name, method.containing_service.full_name
    kind = "bidi_stream" if method.client_streaming else "unary"
    counter = MethodCounters(kind, service, method.name)
    counters.append(counter)
    if method.client_streaming:
        stream = end_stream(name, counter, authorizer.stream(name, serve))
        if tracer is not None:
            stream = tracer.stream(name, stream)
        return grpc.stream_stream_rpc_method_handler(stream)
    unary = authorizer.unary(name, serve)
    if not takes_room:
        unary = limiter.unary(unary)
    unary = end_unary(name, counter, unary)
    if tracer is not None:
        unary = tracer.unary(name, unary)
    return grpc.unary_unary_rpc_method_handler(unary)
