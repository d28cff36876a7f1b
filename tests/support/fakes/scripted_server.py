"""A server of the contract for tests of clients, which records, waits and fails as scripted.

Its answers depend on the request: users whose names start with `denied` are denied. In a batch,
users whose names start with `faulty` are rejected. All others are allowed.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from queuegate.v1 import (
    access_pb2_grpc,
    policy_pb2_grpc,
    user_groups_pb2_grpc,
)
from tests.support.fakes.scripted_services import Access, GroupResolver, Policy, status


@dataclass(frozen=True)
class Fault:
    """How a call ends instead of with an answer."""

    code: grpc.StatusCode
    message: str = "scripted"
    reason: str = ""
    details: Sequence[Message] = ()
    trailers: Sequence[tuple[str, str | bytes]] = ()

    def end(self, context: grpc.ServicerContext) -> None:
        trailers = list(self.trailers)
        if self.reason or self.details:
            rich = status(self.code, self.message, self.reason, *self.details)
            trailers.append(("grpc-status-details-bin", rich.SerializeToString()))
        context.set_trailing_metadata(tuple(trailers))
        context.abort(self.code, self.message)


@dataclass(frozen=True)
class Call:
    """A call that the server received."""

    method: str
    request: Any
    seconds_left: float | None
    peer: str
    metadata: Mapping[str, str | bytes]


@dataclass
class Script:
    """Received calls, and the answers to the next ones, by the methods' short names."""

    calls: list[Call] = field(default_factory=list)
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, Message] = field(default_factory=dict)
    """The answer to give regardless of the request."""
    faults_of_users: Mapping[str, Fault] = field(default_factory=dict)
    """How every call about a user ends."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Calls wait until it is set, as it is initially."""
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once per received call."""

    def __post_init__(self) -> None:
        self.gate.set()

    def reset(self) -> None:
        """Clear the calls, and restore the initial answers."""
        self.calls.clear()
        self.faults.clear()
        self.answers.clear()
        self.gate.set()

    def fail(self, method: str, *faults: Fault) -> None:
        self.faults[method].extend(faults)

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]


class _ScriptInterceptor(grpc.ServerInterceptor):
    def __init__(self, script: Script) -> None:
        self._script = script

    def intercept_service(self, continuation: Callable[..., Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.rpartition("/")[2]
        script = self._script

        def behave(request: Any, context: grpc.ServicerContext) -> Any:
            metadata = dict(context.invocation_metadata())
            script.calls.append(
                Call(method, request, context.time_remaining(), context.peer(), metadata)
            )
            script.arrived.release()
            script.gate.wait()
            if script.faults[method]:
                script.faults[method].pop(0).end(context)
            user = getattr(request, "user", "")
            if fault := script.faults_of_users.get(getattr(user, "user", user)):
                fault.end(context)
            return script.answers.get(method) or handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            behave, handler.request_deserializer, handler.response_serializer
        )


class ScriptedServer:
    """The server, for use in a `with` statement. `address` is the first that it listens on."""

    def __init__(
        self,
        *listen: str,
        queues: Iterable[str] = (),
        health_of: Mapping[str, int] | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        self.script = Script()
        self._workers = ThreadPoolExecutor(max_workers=32)
        self._server = grpc.server(
            self._workers,
            interceptors=[_ScriptInterceptor(self.script)],
            options=[("grpc.so_reuseport", 0)],
        )
        access_pb2_grpc.add_AccessServiceServicer_to_server(Access(list(queues)), self._server)
        user_groups_pb2_grpc.add_UserGroupServiceServicer_to_server(GroupResolver(), self._server)
        policy_pb2_grpc.add_PolicyServiceServicer_to_server(Policy(), self._server)
        healthy = health.HealthServicer()
        serving = health_pb2.HealthCheckResponse.SERVING
        for service, value in (health_of or {"": serving}).items():
            healthy.set(service, value)
        health_pb2_grpc.add_HealthServicer_to_server(healthy, self._server)
        for address in listen or ("127.0.0.1:0",):
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
            if not hasattr(self, "address"):
                self.address = address.replace(":0", f":{port}")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.script.gate.set()
        self._server.stop(None).wait()
        self._workers.shutdown()
