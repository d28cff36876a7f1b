"""Which methods have a line of their own at `grpc.aio`."""

from collections.abc import Mapping
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc

from queuegate_server.rpc.health import HealthServicer
from queuegate_server.throttling.byte_budget import ByteBudget
from queuegate_server.transports.grpcio import GrpcioServer
from queuegate_server.transports.stalls import Refusal, Stalls


async def test_few_methods_have_a_line_of_their_own(monkeypatch: Any) -> None:
    behind = grpc.aio.server()
    apart: list[str] = []

    def register(service: str, handlers: Mapping[str, Any]) -> None:
        apart.extend(f"{service}/{name}" for name in handlers)

    monkeypatch.setattr(behind, "add_registered_method_handlers", register)
    stalls = Stalls(10, ByteBudget(1), Refusal("", (), {}))
    server = GrpcioServer(behind, stalls)
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer([]), server)
    service = "queuegate.v1.AccessService"
    single: Any = grpc.unary_unary_rpc_method_handler(HealthServicer.Check)
    handlers: dict[str, Any] = {
        "CheckQueueAccess": single,
        "BatchCheckQueueAccess": single,
    }
    server.add_registered_method_handlers(service, handlers)
    stream: Any = grpc.stream_stream_rpc_method_handler(HealthServicer.Watch)
    server.add_registered_method_handlers("queuegate.v1.SyncService", {"Sync": stream})
    assert apart == [
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        f"{service}/CheckQueueAccess",
        "queuegate.v1.SyncService/Sync",
    ]
