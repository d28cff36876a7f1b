"""A server of the contract for tests of clients: it records, waits and fails as told.

Its answers follow from the request: users whose name starts with `denied` are
denied, in a batch those that start with `faulty` are refused, all others are allowed.
"""

# gRPC calls the methods of a servicer by the names of the contract:
# ruff: noqa: N802

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    policy_pb2,
    policy_pb2_grpc,
    user_groups_pb2,
    user_groups_pb2_grpc,
)

REVISION = 7


def status(
    code: grpc.StatusCode, message: str = "", reason: str = "", *details: Message
) -> status_pb2.Status:
    """Return a status as a queuegate server sends it."""
    result = status_pb2.Status(code=code.value[0], message=message)
    info = error_details_pb2.ErrorInfo(reason=reason, domain="queuegate")
    for detail in (*((info,) if reason else ()), *details):
        packed = AnyMessage()
        packed.Pack(detail)
        result.details.append(packed)
    return result


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
    """A call that arrived."""

    method: str
    request: Any
    seconds_left: float | None
    peer: str


@dataclass
class Script:
    """What arrived, and what to do next. Methods go by their short names."""

    calls: list[Call] = field(default_factory=list)
    faults: dict[str, list[Fault]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, Message] = field(default_factory=dict)
    """Answered instead of what the request asks for."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Calls wait until it is set, as it is at the start."""
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each call that arrived."""

    def __post_init__(self) -> None:
        self.gate.set()

    def reset(self) -> None:
        """Forget what arrived, and answer as at the start."""
        self.calls.clear()
        self.faults.clear()
        self.answers.clear()
        self.gate.set()

    def fail(self, method: str, *faults: Fault) -> None:
        self.faults[method].extend(faults)

    def requests(self, method: str) -> list[Any]:
        return [call.request for call in self.calls if call.method == method]


class _Scripted(grpc.ServerInterceptor):
    def __init__(self, script: Script) -> None:
        self._script = script

    def intercept_service(self, continuation: Callable[..., Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler
        method = details.method.rpartition("/")[2]
        script = self._script

        def behave(request: Any, context: grpc.ServicerContext) -> Any:
            script.calls.append(Call(method, request, context.time_remaining(), context.peer()))
            script.arrived.release()
            script.gate.wait()
            if script.faults[method]:
                script.faults[method].pop(0).end(context)
            return script.answers.get(method) or handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            behave, handler.request_deserializer, handler.response_serializer
        )


def decide(request: Any) -> access_pb2.CheckQueueAccessResponse:
    allowed = not request.user.user.startswith("denied")
    return access_pb2.CheckQueueAccessResponse(
        allowed=allowed,
        reason=access_pb2.REASON_USER if allowed else access_pb2.REASON_NO_MATCH,
        matched_queue=request.queue.lower() if allowed else "",
        matched_subject=request.user.user if allowed else "",
        policy_revision=REVISION,
    )


class _Access(access_pb2_grpc.AccessServiceServicer):
    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues

    def CheckQueueAccess(self, request: Any, context: Any) -> Any:
        return decide(request)

    def BatchCheckQueueAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.BatchCheckQueueAccessResponse(
            results=[_batch_result(item) for item in request.checks]
        )

    def CheckQueueAccessColumns(self, request: Any, context: Any) -> Any:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "as an older server does")

    def ExplainQueueAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.ExplainQueueAccessResponse(
            decision=decide(request),
            steps=[
                access_pb2.ExplainStep(
                    queue=request.queue,
                    acl=request.access,
                    acl_text="a,b c.d",
                    outcome=access_pb2.STEP_OUTCOME_NO_MATCH,
                    dropped_names=["c.d"],
                )
            ],
            groups=access_pb2.ExplainGroups(
                origin=access_pb2.GROUPS_ORIGIN_CACHE, groups=["g1", "g2"], resolver="corp"
            ),
            evaluated_queue=request.queue,
        )

    def StreamQueueAccess(self, request_iterator: Any, context: Any) -> Any:
        for request in request_iterator:
            results = [_batch_result(item) for item in request.batch.checks]
            batch = access_pb2.BatchCheckQueueAccessResponse(results=results)
            yield access_pb2.StreamQueueAccessResponse(id=request.id, batch=batch)

    def CheckApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.CheckApplicationAccessResponse()

    def BatchCheckApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.BatchCheckApplicationAccessResponse(
            results=[access_pb2.ApplicationCheckResult() for _ in request.checks]
        )

    def ExplainApplicationAccess(self, request: Any, context: Any) -> Any:
        return access_pb2.ExplainApplicationAccessResponse()

    def ListQueues(self, request: Any, context: Any) -> Any:
        start = int(request.page_token or 0)
        end = start + min(request.page_size, 2)
        return access_pb2.ListQueuesResponse(
            queues=self._queues[start:end],
            next_page_token=str(end) if end < len(self._queues) else "",
            policy_revision=REVISION,
        )


def _batch_result(item: Any) -> access_pb2.CheckResult:
    if item.user.user.startswith("faulty"):
        violation = error_details_pb2.BadRequest.FieldViolation(field="queue", description="bad")
        fault = status(
            grpc.StatusCode.INVALID_ARGUMENT,
            "queue: bad",
            "INVALID_FIELD",
            error_details_pb2.BadRequest(field_violations=[violation]),
        )
        return access_pb2.CheckResult(error=fault)
    return access_pb2.CheckResult(decision=decide(item))


class _UserGroups(user_groups_pb2_grpc.UserGroupServiceServicer):
    def ResolveUserGroups(self, request: Any, context: Any) -> Any:
        response = user_groups_pb2.ResolveUserGroupsResponse(
            outcome=user_groups_pb2.RESOLVE_OUTCOME_RESOLVED,
            resolver="corp",
            cached=not request.bypass_cache,
        )
        response.user_group.user = request.user
        response.user_group.groups.extend(["g1", "g2"])
        response.resolved_at.FromSeconds(1_700_000_000)
        return response

    def InvalidateUserGroups(self, request: Any, context: Any) -> Any:
        return user_groups_pb2.InvalidateUserGroupsResponse(dropped=len(request.users) or 1_000)


class _Policy(policy_pb2_grpc.PolicyServiceServicer):
    def GetPolicy(self, request: Any, context: Any) -> Any:
        response = policy_pb2.GetPolicyResponse(
            source="queues.yaml",
            revision=REVISION,
            checksum="ABC",
            queues=[policy_pb2.PolicyQueue(path="root", submit_acl="*")],
            resolver="corp",
            partitions=["default", "gpu"],
        )
        response.loaded_at.FromSeconds(1_700_000_000)
        return response

    def ValidatePolicy(self, request: Any, context: Any) -> Any:
        return policy_pb2.ValidatePolicyResponse(
            valid=False,
            diagnostics=[
                policy_pb2.Diagnostic(
                    severity=policy_pb2.SEVERITY_ERROR,
                    line=2,
                    column=3,
                    queue="root.a",
                    message=f"{request.format}: {request.content}",
                    remedy="mend it",
                )
            ],
        )

    def ReloadPolicy(self, request: Any, context: Any) -> Any:
        return policy_pb2.ReloadPolicyResponse(succeeded=True, revision=REVISION + 1)


class ScriptedServer:
    """The server. Used in a `with` statement; `address` is the first that it listens on."""

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
            interceptors=[_Scripted(self.script)],
            options=[("grpc.so_reuseport", 0)],
        )
        access_pb2_grpc.add_AccessServiceServicer_to_server(_Access(list(queues)), self._server)
        user_groups_pb2_grpc.add_UserGroupServiceServicer_to_server(_UserGroups(), self._server)
        policy_pb2_grpc.add_PolicyServiceServicer_to_server(_Policy(), self._server)
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
