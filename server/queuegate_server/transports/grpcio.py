"""The default transport: `grpc.aio`."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from queuegate_server.config_fields import KIB
from queuegate_server.settings.limits import Connections, Limits
from queuegate_server.transports.stalls import MAX_RECEIVING, Context, Stalls

Responses = AsyncIterator[bytes]

_SPARE_CALLS: Final = 1_000
"""How many calls gRPC accepts beyond our own limit, to leave room for health, reflection, and
refused calls whose status is not sent yet. Calls refused by gRPC itself get no error details."""
HANDSHAKE_SECONDS: Final = 10.0
"""The time to set up a connection, including TLS. Even over a slow line, a handshake takes a few
round trips; a caller that needs longer only holds a connection."""
MAX_METADATA: Final = 16 * KIB
"""The maximum size of a call's metadata. A bearer token of ours has less than 100 bytes; 8 KiB are
gRPC's own default, and proxies add headers for traces."""
MAX_AGE_GRACE_SECONDS: Final = 30.0
"""How long calls may continue on a connection that has reached `limits.connections.max_age`: as
long as the slowest calls of our own client, which end after 30 s. Streams resume elsewhere."""
KEEPALIVE_SECONDS: Final = 120.0
"""How long the client may be silent before the server pings it. Load balancers and firewalls forget
connections after 350 s or later."""
PING_TIMEOUT_SECONDS: Final = 20.0
"""How long the client may take to acknowledge a ping; gRPC's own default."""
MIN_PING_SECONDS: Final = 60.0
"""The minimum time between a client's pings. Our clients ping every five minutes, and gRPC's own
minimum is 10 s."""
MAX_PING_STRIKES: Final = 2
"""How many more frequent pings close the connection; gRPC's own default."""
_DEALLOCATING_CALLS: Final = 200
"""How many ended calls of a connection gRPC may still have to free. Without them, it refuses a
quarter of a client's calls."""
_MAX_MESSAGE: Final = 4 * KIB
"""The maximum size of health and reflection requests. They are parsed before authorization."""
_MALFORMED: Final = f"the request has more than {_MAX_MESSAGE} bytes, or is malformed"
_REGISTERED: Final = frozenset(
    {"/grpc.health.v1.Health/Check", "/queuegate.v1.AccessService/CheckQueueAccess"}
)
"""Unary methods with queues of their own, so that other calls do not delay them. Streams also have
their own queues, because gRPC drops calls from overlong queues, for example when thousands of
streams are opened."""


def bytes_handler(handler: Any) -> Any:
    """Return a handler that takes and returns bytes.

    A library's handler takes messages. Its calls are aborted with INVALID_ARGUMENT if a request
    cannot be parsed, or is too long to be parsed before authorization.
    """
    deserialize, serialize = handler.request_deserializer, handler.response_serializer
    if deserialize is None:
        return handler
    parse = partial(_parse_or_abort, deserialize)

    async def unary(request: bytes, context: Context) -> Any:
        return serialize(await handler.unary_unary(await parse(request, context), context))

    async def unary_stream(request: bytes, context: Context) -> Responses:
        async for response in handler.unary_stream(await parse(request, context), context):
            yield serialize(response)

    async def stream_stream(requests: AsyncIterator[bytes], context: Context) -> Responses:
        messages = _parse_all(parse, requests, context)
        async for response in handler.stream_stream(messages, context):
            yield serialize(response)

    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(stream_stream)
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(unary_stream)
    return grpc.unary_unary_rpc_method_handler(unary)


async def _parse_or_abort(
    deserialize: Callable[[bytes], Any], request: bytes, context: Context
) -> Any:
    if len(request) <= _MAX_MESSAGE:
        with contextlib.suppress(DecodeError):
            return deserialize(request)
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _MALFORMED)
    return None


async def _parse_all(
    parse: Callable[[bytes, Context], Awaitable[Any]],
    requests: AsyncIterator[bytes],
    context: Context,
) -> AsyncIterator[Any]:
    # A generator expression would call `aiter` immediately, and gRPC would warn if nothing were
    # read afterward.
    async for request in requests:
        yield await parse(request, context)


def max_calls(limits: Limits) -> int:
    """Return the maximum number of concurrent calls that a transport accepts."""
    return limits.max_concurrent_calls + MAX_RECEIVING + _SPARE_CALLS


def aio_server(limits: Limits, *, shares_port: bool) -> grpc.aio.Server:
    """Create a grpc.aio server that enforces the given limits."""
    return grpc.aio.server(
        maximum_concurrent_rpcs=max_calls(limits),
        options=(
            ("grpc.max_receive_message_length", limits.max_message),
            ("grpc.max_send_message_length", -1),
            # Only workers may share a port, because unrelated servers may have different policies.
            ("grpc.so_reuseport", int(shares_port)),
            *_connection_args(limits.connections),
        ),
    )


def _connection_args(bounds: Connections) -> Iterator[tuple[str, int]]:
    """Yield the channel arguments that limit connections."""
    yield "grpc.max_allowed_incoming_connections", bounds.most
    yield "grpc.max_concurrent_streams", bounds.max_streams
    yield "grpc.http2.max_deallocating_streams", bounds.max_streams + _DEALLOCATING_CALLS
    # Switch to other connections after reading this many requests. Callers that make one call at a
    # time are unaffected.
    yield "grpc.http2.max_requests_per_read", 2
    yield "grpc.server_handshake_timeout_ms", milliseconds(HANDSHAKE_SECONDS)
    # The handshake includes the client's acknowledgment of the server's settings.
    yield "grpc.http2.settings_timeout", milliseconds(HANDSHAKE_SECONDS)
    # gRPC refuses a call at random if its metadata exceeds the first limit, and always if it
    # exceeds the second. Equal limits make refusals predictable.
    yield "grpc.max_metadata_size", MAX_METADATA
    yield "grpc.absolute_max_metadata_size", MAX_METADATA
    if bounds.max_age:
        yield "grpc.max_connection_age_ms", milliseconds(bounds.max_age)
        yield "grpc.max_connection_age_grace_ms", milliseconds(MAX_AGE_GRACE_SECONDS)
    yield "grpc.keepalive_time_ms", milliseconds(KEEPALIVE_SECONDS)
    yield "grpc.keepalive_timeout_ms", milliseconds(PING_TIMEOUT_SECONDS)
    yield "grpc.http2.min_ping_interval_without_data_ms", milliseconds(MIN_PING_SECONDS)
    yield "grpc.http2.max_ping_strikes", MAX_PING_STRIKES
    # Otherwise, a client without calls may ping only every two hours.
    yield "grpc.keepalive_permit_without_calls", 1


def milliseconds(seconds: float) -> int:
    """Convert seconds to milliseconds, rounding up."""
    return math.ceil(seconds * 1000)


class GrpcioServer:
    """A wrapper around `grpc.aio.Server` that uses one queue for most methods.

    For each call, `grpc.aio` scans the queues of all registered methods. This takes about 2 µs per
    queue and, with twenty methods, a third of a call's CPU time. So only a few methods are
    registered, and generic handlers serve the other methods.
    """

    def __init__(self, server: grpc.aio.Server, stalls: Stalls) -> None:
        self._server = server
        self._stalls = stalls
        self._sweeping: asyncio.Task[None] | None = None

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Do nothing; `add_registered_method_handlers` receives the same handlers."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Serve a service's methods, registering only a few of them."""
        watched = {name: self._watch(each) for name, each in handlers.items()}
        generic = grpc.method_handlers_generic_handler(service, watched)
        self._server.add_generic_rpc_handlers((generic,))
        registered = {
            name: handler
            for name, handler in watched.items()
            if handler.response_streaming or f"/{service}/{name}" in _REGISTERED
        }
        if registered:
            self._server.add_registered_method_handlers(service, registered)

    def _watch(self, handler: Any) -> Any:
        """Wrap a handler to abort calls that stall.

        Unary methods are registered as request-streaming, so that their handlers are called before
        the request arrives. Clients do not notice the difference.
        """
        stalls, handler = self._stalls, bytes_handler(handler)
        if handler.response_streaming:

            async def stream(requests: AsyncIterator[bytes], context: Context) -> Responses:
                if handler.request_streaming:
                    responses = handler.stream_stream(requests, context)
                else:
                    responses = handler.unary_stream(await stalls.receive(context), context)
                async for response in responses:
                    with stalls.sending(context, response):
                        yield response

            return grpc.stream_stream_rpc_method_handler(stream)
        serve = handler.unary_unary

        async def unary(_requests: object, context: Context) -> bytes:
            return stalls.send(context, await serve(await stalls.receive(context), context))

        return grpc.stream_unary_rpc_method_handler(unary)

    def add_insecure_port(self, address: str) -> int:
        """Bind an address and return its port. Raises RuntimeError."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Bind an address with TLS and return its port. Raises RuntimeError."""
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Start serving."""
        await self._server.start()
        self._sweeping = asyncio.create_task(self._stalls.sweep())

    async def stop(self, grace: float | None) -> None:
        """Stop accepting calls, and give calls in progress up to `grace` seconds to finish."""
        await self._server.stop(grace)
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
