"""Requests of a few megabytes that are made to cost much: each gets its answer, soon."""

from collections.abc import Iterator

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.support.servers.queuegate_server import RunningServer, running_server

pytestmark = pytest.mark.both_transports

MOST = 4_000_000
INVALID = "INVALID_ARGUMENT"
SECONDS = 5.0
"""Of the processor: far more than any of these needs, far less than they once took."""


@pytest.fixture(scope="module")
def server(module_transport: None) -> Iterator[RunningServer]:
    with running_server() as started:
        yield started


def question(**user: object) -> bytes:
    information = UserGroupInformation(**user)  # type: ignore[arg-type]
    return access_pb2.CheckQueueAccessRequest(
        user=information, queue="root.sandbox", access=access_pb2.ACCESS_TYPE_SUBMIT
    ).SerializeToString()


def field(number: int, content: bytes) -> bytes:
    size, head = len(content), bytearray([number << 3 | 2])
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + content


MANY_GROUPS = field(1, question(user="a", groups=["g"] * 10_000))
ALL_WRONG = question(user="a", groups=[""] * 10_000)
CHECKS: dict[str, tuple[bytes, str]] = {
    "unknown fields": (b"\x28\x01" * (MOST // 2), INVALID),
    "too many groups": (question(user="a", groups=["g"] * 1_000_000), INVALID),
    "10 000 faults": (ALL_WRONG, INVALID),
    "not UTF-8": (field(1, b"\x12\x01\xff" * 300_000), INVALID),
    "long name": (question(user="é" * 1_000_000), INVALID),
}
BATCHES: dict[str, tuple[bytes, str]] = {
    "endless length": (b"\x0a" + b"\xff" * MOST, INVALID),
    "empty items": (b"\x0a\x00" * (MOST // 2), INVALID),
    "unknown fields": (b"\x10\x01" * (MOST // 2), INVALID),
    "deep groups": (b"\x7b" * MOST, INVALID),
    "long item": (field(1, b"\xff" * MOST), "OK"),
    "items with many groups": (MANY_GROUPS * 130, "OK"),
    "wrong items": (field(1, b"\xff") * 10_000, "OK"),
}
CASES = [
    *(("CheckQueueAccess", *case) for case in CHECKS.values()),
    *(("BatchCheckQueueAccess", *case) for case in BATCHES.values()),
]


@pytest.mark.parametrize(
    ("method", "data", "expected"), CASES, ids=[*CHECKS, *(f"batch: {name}" for name in BATCHES)]
)
def test_costly_request(server: RunningServer, method: str, data: bytes, expected: str) -> None:
    no_limit = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.address, options=no_limit) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            f"/queuegate.v1.AccessService/{method}"
        )
        before = server.processor_seconds()
        try:
            call(data, timeout=60)
            code = "OK"
        except grpc.RpcError as error:
            code = error.code().name
        assert server.processor_seconds() - before < SECONDS
        assert code == expected


@pytest.mark.parametrize(
    "message",
    [b"\x12\x01\x00" * (MOST // 3), b"\x18\x01" * (MOST // 2), b"\x12" + b"\xff" * MOST],
    ids=["merged batches", "unknown fields", "endless length"],
)
def test_costly_stream(server: RunningServer, message: bytes) -> None:
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/queuegate.v1.AccessService/StreamQueueAccess"
        )
        before = server.processor_seconds()
        (answer,) = call(iter([message]), timeout=60)
        assert server.processor_seconds() - before < SECONDS
        assert access_pb2.StreamQueueAccessResponse.FromString(answer).error.code == 3


def test_an_error_with_many_faults_fits_into_a_status(server: RunningServer) -> None:
    """gRPC drops a status of more than 8 KiB: it has the first faults and their number."""
    with grpc.insecure_channel(server.address) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/queuegate.v1.AccessService/CheckQueueAccess"
        )
        failed = call.future(ALL_WRONG, timeout=60)
        assert failed.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (failed.details() or "").startswith("user.groups[0]: is empty; ")
        assert (failed.details() or "").endswith("; and 9990 more")


def test_the_server_is_well_afterwards(server: RunningServer) -> None:
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.health()
        assert client.check("a", "root.sandbox")
    assert server.memory() < 400 << 20
