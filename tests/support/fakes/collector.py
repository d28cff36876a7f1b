"""A trace collector: a real gRPC server for OTLP that keeps what it receives."""

from concurrent import futures
from types import TracebackType
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.support.eventually import eventually


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.spans: list[trace_pb2.Span] = []
        self.resource: dict[str, str] = {}
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        add_to: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add_to(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.endpoint = f"http://127.0.0.1:{port}"

    def Export(  # noqa: N802 - the name of the contract
        self, request: Any, context: grpc.ServicerContext
    ) -> Any:
        for resource in request.resource_spans:
            self.resource = {
                one.key: one.value.string_value for one in resource.resource.attributes
            }
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, count: int) -> dict[str, trace_pb2.Span]:
        """Return the spans by name, once there are `count`."""
        eventually(lambda: len(self.spans) >= count, expected=True)
        assert len(self.spans) == count, [span.name for span in self.spans]
        return {span.name: span for span in self.spans}

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.stop(None).wait(5)


def attributes(span: trace_pb2.Span) -> dict[str, object]:
    return {
        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
    }
