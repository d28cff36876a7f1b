"""Registers servicers with a transport, wrapping each method in interceptors."""

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


class _HandlerRegistry(Protocol):
    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler], /) -> None: ...
    def add_registered_method_handlers(
        self, service: str, handlers: dict[str, "grpc.RpcMethodHandler[Any, Any]"], /
    ) -> None: ...


class Interceptors(NamedTuple):
    """The interceptors shared by all services.

    A call passes through the tracer, the counter (which converts errors to statuses), the
    concurrency limiter and the authorizer, in this order. Refusals are therefore converted, counted
    and traced like other errors.
    """

    counters: list[MethodCounters]
    tracer: Tracer | None
    limiter: ConcurrencyLimiter
    authorizer: Authorizer


def register(
    server: _HandlerRegistry,
    service: ServiceDescriptor,
    servicer: object,
    interceptors: Interceptors,
) -> None:
    """Serve each method of a service with the servicer's method of the same name.

    Messages are passed as bytes. A method may have two additional parameters: `trusted`, whether to
    use the caller's asserted groups, and `permit`, a context manager that counts the call as in
    progress. A unary call without `permit` counts from start to finish. Streams do not count,
    because services limit their own. Raises AttributeError if a method is missing, and KeyError if
    it has no role.
    """
    handlers = {
        method.name: _handler(method, getattr(servicer, method.name), interceptors)
        for method in service.methods
    }
    # Register the handlers in both ways, as generated code does. Each transport uses one of them.
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
    if takes_permit := "permit" in parameters:
        serve = partial(serve, permit=limiter.permit)
    if "trusted" not in parameters:
        serve = _without_trust(serve)
    name, service = method.full_name, method.containing_service.full_name
    kind = "bidi_stream" if method.client_streaming else "unary"
    counter = _counter(counters, MethodCounters(kind, service, method.name))
    if method.client_streaming:
        stream = end_stream(name, counter, authorizer.stream(name, serve))
        if tracer is not None:
            stream = tracer.stream(name, stream)
        return grpc.stream_stream_rpc_method_handler(stream)
    unary = authorizer.unary(name, serve)
    if not takes_permit:
        unary = limiter.unary(unary)
    unary = end_unary(name, counter, unary)
    if tracer is not None:
        unary = tracer.unary(name, unary)
    return grpc.unary_unary_rpc_method_handler(unary)


def _counter(counters: list[MethodCounters], new: MethodCounters) -> MethodCounters:
    """Return the counter of a method, which all transports share."""
    for each in counters:
        if (each.service, each.method) == (new.service, new.method):
            return each
    counters.append(new)
    return new
