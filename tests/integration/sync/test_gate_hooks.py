"""Interceptors of gRPC see the stream of a gate, and the calls that it makes as a client."""

from typing import Any

import grpc
import grpc.aio

from tests.support.gates import decides_itself, live_gate
from tests.support.servers.queuegate_server import ADMIN, running_server

SERVE = ("--policy", "examples/queues.yaml", *ADMIN)


class Blocking(grpc.StreamStreamClientInterceptor, grpc.UnaryUnaryClientInterceptor):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        self.seen.append(details.method)
        return continuation(details, requests)

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self.seen.append(details.method)
        return continuation(details, request)


class OfStreams(grpc.aio.StreamStreamClientInterceptor):
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    async def intercept_stream_stream(self, continuation: Any, details: Any, requests: Any) -> Any:
        self.seen.append(details.method)
        return await continuation(details, requests)


def test_a_blocking_gate() -> None:
    interceptor = Blocking()
    options: dict[str, Any] = {"interceptors": [interceptor], "metadata": {"x-team": "search"}}
    with running_server(*SERVE) as server, live_gate(server.address, **options) as gate:
        assert decides_itself(gate, "sue", "root.analytics.reports")
        assert interceptor.seen == ["/queuegate.v1.SyncService/Sync"]
        assert gate.explain("sue", "root.analytics.reports")
        assert interceptor.seen[1:] == ["/queuegate.v1.AccessService/ExplainQueueAccess"]


def test_a_gate_for_asyncio() -> None:
    interceptor = OfStreams()
    options: dict[str, Any] = {"interceptors": [interceptor], "metadata": {"x-team": "search"}}
    with running_server(*SERVE) as server, live_gate(server.address, "asyncio", **options) as gate:
        assert decides_itself(gate, "sue", "root.analytics.reports")
        assert interceptor.seen == [b"/queuegate.v1.SyncService/Sync"]
