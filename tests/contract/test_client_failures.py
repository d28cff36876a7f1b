"""How calls fail: statuses as exceptions, time limits, servers that are not there."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

import queuegate
from queuegate import Check
from queuegate.exceptions import (
    DeadlineExceeded,
    GroupsUnavailable,
    InvalidArgument,
    MessageTooLarge,
    NotPermitted,
    Overloaded,
    QueuegateError,
    ServerError,
    ServerUnavailable,
    UnknownPartition,
)
from queuegate.v1 import policy_pb2
from tests.support.client_calls import CALLS, QUICK, Ask
from tests.support.fakes.scripted_server import Fault, Script, ScriptedServer

RETRY_IN = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=5, nanos=500_000_000))
BAD_REQUEST = error_details_pb2.BadRequest(
    field_violations=[
        error_details_pb2.BadRequest.FieldViolation(field="user.user", description="is required"),
        error_details_pb2.BadRequest.FieldViolation(field="queue", description="is too long"),
    ]
)
Code = grpc.StatusCode
ENDS: list[tuple[Fault, type[QueuegateError], dict[str, Any]]] = [
    (
        Fault(Code.INVALID_ARGUMENT, "two faults", "INVALID_FIELD", [BAD_REQUEST]),
        InvalidArgument,
        {
            "message": "two faults",
            "reason": "INVALID_FIELD",
            "violations": [("user.user", "is required"), ("queue", "is too long")],
        },
    ),
    (Fault(Code.INVALID_ARGUMENT, "bare"), InvalidArgument, {"violations": [], "reason": ""}),
    (Fault(Code.NOT_FOUND, "no gpu", "UNKNOWN_PARTITION"), UnknownPartition, {"message": "no gpu"}),
    (
        Fault(Code.UNAVAILABLE, "ldap", "RESOLVER_UNAVAILABLE", [RETRY_IN]),
        GroupsUnavailable,
        {"message": "ldap", "retry_after": 5.5},
    ),
    (Fault(Code.UNAVAILABLE, "soon", "NOT_READY"), ServerUnavailable, {"retry_after": None}),
    (Fault(Code.RESOURCE_EXHAUSTED, "busy", "OVERLOADED"), Overloaded, {"message": "busy"}),
    (
        Fault(Code.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 4)"),
        MessageTooLarge,
        {"code": "RESOURCE_EXHAUSTED", "reason": ""},
    ),
    (Fault(Code.RESOURCE_EXHAUSTED, "a proxy's quota"), Overloaded, {"message": "a proxy's quota"}),
    (
        Fault(Code.RESOURCE_EXHAUSTED, "100 calls are larger than max", "OVERLOADED"),
        Overloaded,
        {"message": "100 calls are larger than max"},
    ),
    (Fault(Code.PERMISSION_DENIED, "no", "CALLER_NOT_PERMITTED"), NotPermitted, {"message": "no"}),
    (Fault(Code.UNAUTHENTICATED, "who?"), NotPermitted, {"reason": ""}),
    (Fault(Code.DEADLINE_EXCEEDED, "late"), DeadlineExceeded, {}),
    (Fault(Code.INTERNAL, "internal error 1f", "INTERNAL"), ServerError, {"reason": "INTERNAL"}),
    *((Fault(code, "odd"), ServerError, {"message": "odd"}) for code in (
        Code.UNKNOWN,
        Code.DATA_LOSS,
        Code.ABORTED,
        Code.ALREADY_EXISTS,
        Code.FAILED_PRECONDITION,
        Code.OUT_OF_RANGE,
    )),
    (Fault(Code.UNIMPLEMENTED, "what?"), ServerError, {}),
    (Fault(Code.CANCELLED, "stopped"), ServerUnavailable, {}),
    (
        Fault(Code.NOT_FOUND, "garbled", trailers=[("grpc-status-details-bin", b"\xff\xff")]),
        UnknownPartition,
        {"message": "garbled", "reason": ""},
    ),
]  # fmt: skip


def test_every_status_code_is_in_the_table() -> None:
    assert {fault.code for fault, _, _ in ENDS} == set(grpc.StatusCode) - {Code.OK}


@pytest.mark.parametrize(("fault", "kind", "attributes"), ENDS)
async def test_statuses_become_exceptions(
    server: ScriptedServer,
    connect: Callable[..., Ask],
    fault: Fault,
    kind: type[QueuegateError],
    attributes: dict[str, Any],
) -> None:
    server.script.fail("CheckQueueAccess", fault)
    ask = connect(server.address, timeout=60, retry=queuegate.Retry(attempts=1))
    with pytest.raises(QueuegateError) as caught:
        await ask("check", "alice", "root")
    assert type(caught.value) is kind
    assert caught.value.code == fault.code.name
    assert str(caught.value) == caught.value.message
    for name, value in attributes.items():
        assert getattr(caught.value, name) == value
    assert len(server.script.calls) == 1


@pytest.mark.parametrize(
    "code",
    sorted({fault.code for fault, _, _ in ENDS} - {Code.UNAVAILABLE, Code.CANCELLED}, key=str),
)
async def test_other_ends_are_not_tried_again(
    ask: Ask, script: Script, code: grpc.StatusCode
) -> None:
    script.fail("CheckQueueAccess", *[Fault(code)] * 5)
    with pytest.raises(QueuegateError):
        await ask("check", "alice", "root")
    assert len(script.calls) == 1


async def test_a_hanging_server_ends_with_the_time_limit(
    server: ScriptedServer, connect: Callable[..., Ask]
) -> None:
    server.script.gate.clear()
    ask = connect(server.address, timeout=0.1)
    for method, _, args in CALLS:
        kwargs = {"timeout": 0.1} if method in {"reload", "validate", "list_users"} else {}
        start = time.monotonic()
        with pytest.raises(
            DeadlineExceeded, match=r"no response from 127\.0\.0\.1:\d+ within 0\.1 s"
        ):
            await ask(method, *args, **kwargs)
        assert 0.05 < time.monotonic() - start < 60


class Forgetful(grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        await asyncio.Future()


async def test_a_call_that_grpc_does_not_end_is_given_up(server: ScriptedServer) -> None:
    async with queuegate.aio.Client(
        server.address, timeout=60, interceptors=[Forgetful()]
    ) as client:
        with pytest.raises(DeadlineExceeded, match=r"no response from .* within 0\.1 s") as caught:
            await client.check("alice", "root", timeout=0.1)
        assert caught.value.code == "DEADLINE_EXCEEDED"
        with pytest.raises(TimeoutError):  # one of the caller's own stays what it is
            await asyncio.wait_for(client.check("alice", "root"), 0.1)


class OneSlowPass(threading.Event):
    """A gate that lets one call pass, after a second."""

    def wait(self, timeout: float | None = None) -> bool:
        opened = super().wait(timeout)
        self.clear()
        time.sleep(1)
        return opened


async def test_the_time_limit_covers_all_batches(ask: Ask, script: Script) -> None:
    checks = [Check(f"u{number}", "root") for number in range(30_000)]
    start = time.monotonic()
    await ask("check_many", checks[:10_000])
    # Long enough for one batch to be answered, on this machine as it is now.
    limit = round(3 + 4 * (time.monotonic() - start))
    script.calls.clear()
    script.gate = OneSlowPass()
    script.gate.set()
    with pytest.raises(DeadlineExceeded, match=f"within {limit} s"):
        await ask("check_many", checks, timeout=limit)
    first, second = script.calls
    assert 0 < (first.seconds_left or 0) <= limit
    # The first batch took a second; gRPC rounds time limits up, by less than half a second.
    assert 0 < (second.seconds_left or 0) < limit - 0.5


async def test_nobody_listens(connect: Callable[..., Ask]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        ask = connect(f"127.0.0.1:{port}", timeout=60, retry=QUICK)
        with pytest.raises(
            ServerUnavailable, match=rf"no server at 127.0.0.1:{port} \(.*refused.*\)"
        ) as caught:
            await ask("check", "alice", "root")
    assert caught.value.reason == ""


async def test_a_server_that_comes_back_is_found(
    connect: Callable[..., Ask], tmp_path: Path
) -> None:
    # Nobody else takes the address of a Unix socket meanwhile.
    with ScriptedServer(f"unix:{tmp_path}/q.sock") as first:
        ask = connect(first.address, timeout=60, retry=queuegate.Retry(attempts=1))
        assert await ask("check", "alice", "root")
    with pytest.raises(ServerUnavailable):
        await ask("check", "alice", "root")
    with ScriptedServer(first.address):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                assert await ask("check", "alice", "root")
            except ServerUnavailable:
                await asyncio.sleep(0.05)
            else:
                return
    pytest.fail("not found within 60 s")


async def test_something_else_listens(connect: Callable[..., Ask]) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ask = connect(f"127.0.0.1:{port}", timeout=60)
    with pytest.raises(ServerError, match="is it a queuegate server"):
        await ask("check", "alice", "root")
    with pytest.raises(ServerError, match="is it a queuegate server"):
        await ask("check_health")
    server.stop(None).wait()


async def test_a_response_above_the_limit_is_an_error(ask: Ask, script: Script) -> None:
    script.answers["GetPolicy"] = policy_pb2.GetPolicyResponse(source="x" * (65 * 1024 * 1024))
    with pytest.raises(MessageTooLarge, match=r"the response of .* request less at a time"):
        await ask("get_policy", timeout=60)


async def test_a_response_above_the_usual_limit_arrives(ask: Ask, script: Script) -> None:
    script.answers["GetPolicy"] = policy_pb2.GetPolicyResponse(source="x" * (20 * 1024 * 1024))
    assert len((await ask("get_policy", timeout=60)).source) == 20 * 1024 * 1024


async def test_a_compressed_response_is_refused(connect: Callable[..., Ask]) -> None:
    """An older gRPC would decompress it, whatever its size, before it looks at the size."""
    answer = policy_pb2.GetPolicyResponse(source="x" * (20 * 1024 * 1024)).SerializeToString()

    def serve(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        return answer

    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "GetPolicy": grpc.unary_unary_rpc_method_handler(serve)
    }
    server = grpc.server(
        ThreadPoolExecutor(1),
        [grpc.method_handlers_generic_handler("queuegate.v1.PolicyService", methods)],
        options=(("grpc.max_send_message_length", -1),),
        compression=grpc.Compression.Gzip,
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ask = connect(f"127.0.0.1:{port}", timeout=60)
    with pytest.raises(ServerError, match="'gzip' is disabled"):
        await ask("get_policy")
    server.stop(None).wait()
