"""Bounds on callers and their connections, against a running server."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import queuegate
from queuegate.policy.decision import RULES
from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.integration.security.authorities import channel, client, configured
from tests.resilience import http2
from tests.support.sync_stream import sync_request


def question(user: str = "alice") -> access_pb2.CheckQueueAccessRequest:
    return access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user=user),
        queue="root.open",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )


CHECK = "/queuegate.v1.AccessService/CheckQueueAccess"
HASTY = {"transports.stalls.TRANSFER_SECONDS": 0.1}


def test_the_rate_of_a_caller(tmp_path: Path) -> None:
    listen = ["127.0.0.1:0", f"unix:{tmp_path}/q.sock"]
    limits = {"caller_rate": 0.01, "caller_burst": 5}
    with configured(tmp_path, listen, limits=limits) as server:
        tcp, unix = server.address.split(", ")
        with client(tcp) as asking, client(unix) as other:
            for _ in range(5):
                assert asking.check("alice", "root.open")
            with pytest.raises(queuegate.Overloaded) as caught:
                asking.check("alice", "root.open")
            assert caught.value.reason == "RATE_LIMITED"
            assert caught.value.retry_after is not None
            assert 0 < caught.value.retry_after <= 100
            # Neither the health nor another caller.
            assert asking.check_health()
            assert other.check("alice", "root.open")


def test_metadata_over_the_limit(tmp_path: Path) -> None:
    with (
        configured(tmp_path) as server,
        channel(server.address) as asking,
    ):
        stub = AccessServiceStub(asking)
        short, long = ((("x", "y" * length),) for length in (15_000, 17_000))
        assert stub.CheckQueueAccess(question(), timeout=60, metadata=short).allowed
        with pytest.raises(grpc.RpcError) as caught:
            stub.CheckQueueAccess(question(), timeout=60, metadata=long)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stub.CheckQueueAccess(question(), timeout=60).allowed


def test_settings_must_be_acknowledged(tmp_path: Path) -> None:
    """Until then gRPC does not hold a client to them."""
    constants = {"transports.grpcio.HANDSHAKE_SECONDS": 0.1}
    with (
        configured(tmp_path, constants=constants) as server,
        http2.connected(server.address, http2.BEGIN) as silent,
    ):
        assert http2.is_closed(silent)


def test_connections_that_grow_old_lose_no_call(tmp_path: Path) -> None:
    """Not even those of a client that retries nothing: gRPC resends what the server never saw."""
    connections = {"max_age": "100ms"}

    def ask_until(old: threading.Event) -> None:
        while not old.is_set():
            assert asking.check("alice", "root.open")

    with (
        configured(tmp_path, limits={"connections": connections}) as server,
        client(server.address) as asking,
        ThreadPoolExecutor(4) as pool,
    ):
        old = threading.Event()
        asked = [pool.submit(ask_until, old) for _ in range(4)]
        try:  # while these connections grow old, those of the client do so, too
            for _ in range(10):
                until_goaway(server.address)
        finally:
            old.set()
        for each in asked:
            each.result()


def until_goaway(address: str) -> None:
    """Connect as HTTP/2 does, and read until the frame GOAWAY."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        frames = connection.makefile("rb")
        with frames:
            while (head := frames.read(9))[3] != 7:
                frames.read(int.from_bytes(head[:3], "big"))


def test_health_watchers_leave_room_for_calls(tmp_path: Path) -> None:
    """Any client that can connect may watch, without any role."""
    alone = (("grpc.use_local_subchannel_pool", 1),)
    with (
        configured(tmp_path) as server,
        channel(server.address) as asking,
        ExitStack() as channels,
    ):
        watching = [
            channels.enter_context(grpc.insecure_channel(server.address, alone)) for _ in range(4)
        ]
        watches = [
            health_pb2_grpc.HealthStub(each).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            for each in watching
            for _ in range(15)
        ]
        codes = []
        for watch in watches:
            try:
                assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            except grpc.RpcError as error:
                codes.append(error.code())
        assert codes == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 10
        assert AccessServiceStub(asking).CheckQueueAccess(question(), timeout=60).allowed
        for watch in watches:
            watch.cancel()


def test_more_connections_than_allowed_are_refused(tmp_path: Path) -> None:
    with (
        configured(tmp_path, limits={"connections": {"most": 3}}) as server,
        ExitStack() as channels,
    ):
        codes = []
        for _ in range(6):
            # Otherwise all channels of a process share a connection.
            alone = (("grpc.use_local_subchannel_pool", 1),)
            asking = channels.enter_context(grpc.insecure_channel(server.address, alone))
            try:
                AccessServiceStub(asking).CheckQueueAccess(question(), timeout=60)
            except grpc.RpcError as error:
                codes.append(error.code())
    assert codes == [grpc.StatusCode.UNAVAILABLE] * 3


def test_requests_that_do_not_arrive_are_given_up(tmp_path: Path) -> None:
    never = threading.Event()
    with (
        configured(tmp_path, constants=HASTY) as server,
        channel(server.address) as asking,
    ):
        # The client sees no difference between a unary call and one with a stream of requests.
        call: Any = asking.stream_unary(CHECK)
        late = call.future(iter(never.wait, True), timeout=60)
        assert late.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert late.details() == "the request did not arrive within 0.1 s"
        never.set()
        empty = call.future(iter(()), timeout=60)
        assert empty.code() is grpc.StatusCode.UNIMPLEMENTED
        assert empty.details() == "the call ended without a request"
        assert AccessServiceStub(asking).CheckQueueAccess(question(), timeout=60).allowed


@pytest.mark.parametrize("method", ["CheckQueueAccess", "Sync"])
def test_a_connection_that_reads_no_answer_is_cut(tmp_path: Path, method: str) -> None:
    no_window = http2.frame(http2.SETTINGS, payload=b"\0\4\0\0\0\0")
    asked = http2.question()
    if method == "Sync":
        message = sync_request("open", rules=[RULES]).SerializeToString()
        sent = b"\0" + len(message).to_bytes(4) + message
        asked = http2.frame(http2.DATA, 0, 1, sent)
    acknowledged = http2.frame(http2.SETTINGS, http2.ACK)
    begin = http2.PREFACE + no_window + acknowledged + http2.headers(method) + asked
    with (
        configured(tmp_path, constants=HASTY) as server,
        channel(server.address) as asking,
        http2.connected(server.address, begin) as unread,
    ):
        assert http2.is_closed(unread)
        assert AccessServiceStub(asking).CheckQueueAccess(question(), timeout=60).allowed


def test_a_message_that_unpacks_to_more_than_the_limit(tmp_path: Path) -> None:
    """It is refused before it is unpacked."""
    size = 128 << 20
    with (
        configured(tmp_path) as server,
        grpc.insecure_channel(server.address) as asking,
    ):
        call: Any = asking.unary_unary(CHECK)
        before = server.peak_memory()
        with pytest.raises(grpc.RpcError) as caught:
            call(bytes(size), timeout=60, compression=grpc.Compression.Gzip)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert server.peak_memory() - before < size // 2
