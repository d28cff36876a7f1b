"""Tracing of calls, reviews and lookups, exported via OTLP in the background.

Only this module uses OpenTelemetry, and imports it only if tracing is enabled. Spans contain no
names of users, groups or queues.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from queuegate_server.identity.resolver import LookupFailure, Outcome, Resolver
from queuegate_server.observe.counters import outcome_name
from queuegate_server.runtime.threads import AbandonableThreadPool
from queuegate_server.settings.observability import Tracing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

_Call = grpc.aio.ServicerContext[bytes, bytes]
_UnaryMethod = Callable[[bytes, _Call], Awaitable[bytes]]
_Stream = Callable[[AsyncIterator[bytes], _Call], AsyncIterator[bytes]]

_EXPORT_SECONDS: Final = 5
_CLOSE_SECONDS: Final = 3.0
MAX_QUEUED_SPANS: Final = 2048
"""The maximum number of queued spans. Any more are dropped."""
_PROPAGATED: Final = frozenset({"traceparent", "tracestate"})
# Server errors according to https://opentelemetry.io/docs/specs/semconv/rpc/grpc/.
_SERVER_ERRORS: Final = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
_SERVER_ERROR: Final = 500
"""The first HTTP status that is a server error."""
_BY_NUMBER: Final = {code.value[0]: code for code in grpc.StatusCode}


class TracingNotInstalled(Exception):
    """Tracing is enabled, but OpenTelemetry, an optional dependency, is not installed."""


class Tracer:
    """Records spans for calls and lookups, and exports them in a background thread."""

    def __init__(self, settings: Tracing) -> None:
        """Start the exporter. Raises TracingNotInstalled."""
        try:
            from opentelemetry import context, trace  # noqa: PLC0415 - only if enabled
            from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - optional
                TraceContextTextMapPropagator,
            )

            self._provider = _provider(settings)
        except ImportError as error:
            raise TracingNotInstalled(
                "tracing.enabled requires OpenTelemetry, which is not installed:"
                " pip install 'queuegate[tracing]'"
            ) from error
        self._context = context
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = self._provider.get_tracer("queuegate")

    def unary(self, method: str, handler: _UnaryMethod) -> _UnaryMethod:
        """Wrap a unary handler to record a span for each call."""
        describe = self._server_span(method)

        async def traced(data: bytes, context: _Call) -> bytes:
            with describe(context):
                return await handler(data, context)

        return traced

    def stream(self, method: str, handler: _Stream) -> _Stream:
        """Wrap a stream handler to record a span for each call."""
        describe = self._server_span(method)

        async def traced(requests: AsyncIterator[bytes], context: _Call) -> AsyncIterator[bytes]:
            with describe(context):
                async for response in handler(requests, context):
                    yield response

        return traced

    @contextlib.contextmanager
    def review(self, path: str, headers: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """Record a span for a request to the admission webhook.

        `path` is an endpoint's path. Call the result with the status of the response.
        """
        carrier = {key: headers[key] for key in _PROPAGATED if key in headers}
        span = self._tracer.start_span(
            f"POST {path}",
            context=self._propagator.extract(carrier, context=self._context.Context()),
            kind=self._trace.SpanKind.SERVER,
            attributes={"http.request.method": "POST", "http.route": path},
        )
        # The context must be restored, because requests on one connection share a task.
        token = self._context.attach(self._trace.set_span_in_context(span))
        status = 0

        def note(code: int) -> None:
            nonlocal status
            status = code
            span.set_attribute("http.response.status_code", code)

        try:
            yield note
        finally:
            self._context.detach(token)
            if status == 0 or status >= _SERVER_ERROR:
                span.set_status(self._trace.StatusCode.ERROR)
            span.end()

    def resolver(self, name: str, resolver: Resolver) -> Resolver:
        """Wrap a resolver to record a span for each lookup, as a child of the call's span."""
        return _TracedResolver(name, resolver, self._trace, self._tracer)

    async def close(self) -> None:
        """Export the queued spans, waiting for up to three seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await AbandonableThreadPool(1, "tracing").run("", self._provider.shutdown)

    def _server_span(self, method: str) -> Callable[[_Call], AbstractContextManager[None]]:
        service, _, name = method.rpartition(".")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}

        @contextlib.contextmanager
        def span_of(context: _Call) -> Iterator[None]:
            span = self._tracer.start_span(
                f"{service}/{name}",
                context=self._parent(context),
                kind=self._trace.SpanKind.SERVER,
                attributes=attributes,
            )
            # The context need not be restored because each call runs in its own task.
            self._context.attach(self._trace.set_span_in_context(span))
            try:
                yield
            except BaseException as error:
                self._end(span, _code(context, error))
                raise
            self._end(span, grpc.StatusCode.OK)

        return span_of

    def _parent(self, context: _Call) -> "Context":
        carrier = {
            key: value
            for key, value in context.invocation_metadata() or ()
            if key in _PROPAGATED and isinstance(value, str)
        }
        # Start from an empty context so that the current span cannot become the parent.
        return self._propagator.extract(carrier, context=self._context.Context())

    def _end(self, span: "Span", code: grpc.StatusCode) -> None:
        span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in _SERVER_ERRORS:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()


@dataclass(frozen=True, slots=True)
class _TracedResolver:
    """A wrapper that records a span for each lookup and delegates everything else."""

    _name: str
    _resolver: Resolver
    _trace: Any
    _tracer: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resolver, name)

    async def resolve(self, user: str) -> Outcome:
        span = self._tracer.start_span(
            "resolve groups",
            kind=self._trace.SpanKind.CLIENT,
            attributes={"queuegate.resolver": self._name, "queuegate.outcome": "none"},
        )
        succeeded = False
        try:
            outcome = await self._resolver.resolve(user)
            span.set_attribute("queuegate.outcome", outcome_name(outcome))
            succeeded = not isinstance(outcome, LookupFailure)
            return outcome
        finally:
            if not succeeded:
                span.set_status(self._trace.StatusCode.ERROR)
            span.end()


def _provider(settings: Tracing) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 - optional
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - optional
    from opentelemetry.sdk.trace.sampling import (  # noqa: PLC0415 - optional
        ParentBased,
        TraceIdRatioBased,
    )

    about = {"service.name": "queuegate", "service.version": version("queuegate")}
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        resource=Resource.create(about),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=MAX_QUEUED_SPANS, schedule_delay_millis=1000)
    )
    return provider


def _code(context: Any, error: BaseException) -> grpc.StatusCode:
    """Return a failed call's status. `context.code()` returns either a StatusCode or a number."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return grpc.StatusCode.CANCELLED
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code
    return _BY_NUMBER.get(code, grpc.StatusCode.UNKNOWN)
