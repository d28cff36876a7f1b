"""Requests of a few megabytes that are made to cost much: each gets its answer, soon."""

import threading
import time
from collections.abc import Iterator

import grpc
import pytest

import queuegate
from tests.support.generators.costly import (
    ACCESS,
    ALL_WRONG,
    CHECKS,
    LEGAL,
    REFUSED,
    STREAMS,
    Costly,
)
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

pytestmark = pytest.mark.both_transports

SECONDS = 5.0
"""Of the processor: far more than any of these needs, far less than they once took."""
COSTLY = REFUSED | LEGAL
LIBRARIES = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
FLOODS = ("check: fields on two levels", "check: too many groups", "CheckApplicationAccess")


@pytest.fixture(scope="module")
def server(module_transport: None) -> Iterator[RunningServer]:
    with running_server(*ADMIN) as started:
        yield started


def code_of(channel: grpc.Channel, request: Costly) -> str:
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(request.method)
    try:
        call(request.message, timeout=60, compression=grpc.Compression.Gzip)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


@pytest.mark.parametrize("costly", COSTLY.values(), ids=COSTLY.keys())
def test_costly_request(server: RunningServer, costly: Costly) -> None:
    no_limit = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.address, options=no_limit) as channel:
        before = server.processor_seconds()
        assert code_of(channel, costly) == costly.code
        assert server.processor_seconds() - before < SECONDS


@pytest.mark.parametrize("message", STREAMS.values(), ids=STREAMS.keys())
def test_costly_stream(server: RunningServer, message: bytes) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/queuegate.v1.SyncService/Sync"
        )
        before = server.processor_seconds()
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([message]), timeout=60))
        assert server.processor_seconds() - before < SECONDS
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("message", [b"\x7a\x00" * 5_000, b"\xff"], ids=["long", "malformed"])
@pytest.mark.parametrize("method", LIBRARIES)
def test_requests_to_services_of_libraries_are_bounded(
    server: RunningServer, method: str, message: bytes
) -> None:
    """They are parsed before the caller's role is known, if they need one at all."""
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(method)
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([message]), timeout=60))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "the request has more than 4096 bytes, or is malformed"


@pytest.mark.parametrize("name", FLOODS)
def test_others_are_answered_beside_costly_requests(server: RunningServer, name: str) -> None:
    """Each of these costs much less than a check may wait, and they take turns."""
    ended = threading.Event()
    codes = []

    def flood() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, options=options) as channel:
            while not ended.is_set():
                codes.append(code_of(channel, COSTLY[name]))

    floods = [threading.Thread(target=flood) for _ in range(2)]
    longest = 0.0
    with queuegate.Client(server.address, timeout=60) as client:
        for thread in floods:
            thread.start()
        try:
            begin = time.monotonic()
            while len(codes) < 20 and time.monotonic() - begin < 60:
                asked = time.monotonic()
                client.check("a", f"root.sandbox.n{len(codes)}")
                longest = max(longest, time.monotonic() - asked)
        finally:
            ended.set()
            for thread in floods:
                thread.join()
    assert set(codes) == {COSTLY[name].code}
    assert longest < 2.0


def test_an_error_with_many_faults_fits_into_a_status(server: RunningServer) -> None:
    """gRPC drops a status of more than 8 KiB: it has the first faults and their number."""
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"{ACCESS}CheckQueueAccess"
        )
        failed = call.future(ALL_WRONG, timeout=60)
        assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (failed.details() or "").startswith("user.groups[0]: is empty; ")
        assert (failed.details() or "").endswith("; and 9990 more")


def test_refused_requests_leave_nothing_in_memory(server: RunningServer) -> None:
    """Each of these takes 40 MB while it is parsed."""
    message, code = CHECKS["too many groups"]
    with grpc.insecure_channel(server.address) as channel:
        for _ in range(30):
            assert code_of(channel, Costly(f"{ACCESS}CheckQueueAccess", message, code)) == code
    assert server.memory() < 400 << 20


def test_the_server_is_well_afterwards(server: RunningServer) -> None:
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.check_health()
        assert client.check("a", "root.sandbox")
    assert server.memory() < 400 << 20
