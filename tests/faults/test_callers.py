"""Callers that send too little, too much, or too often."""

from contextlib import ExitStack

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.faults import http2
from tests.faults.observed import Record, observed
from tests.running import RunningServer

MOST_BYTES = 4 << 20
MOST_SECONDS = 60


def test_half_a_frame(server: RunningServer, record: Record) -> None:
    """Ten callers stop at each of several places, and stay connected."""
    with observed(server, record) as fault:
        with ExitStack() as held:
            for sent in http2.HALVES.values():
                for _ in range(10):
                    held.enter_context(http2.connected(server.address, sent))
            with fault.expected_to_serve():
                pass
        record("connections held", 10 * len(http2.HALVES))
    assert set(fault.outcomes) == {"answered"}


def test_a_thousand_connections(server: RunningServer, record: Record) -> None:
    """Each asks once and stays."""
    with observed(server, record) as fault:
        with ExitStack() as held:
            connections = [
                held.enter_context(http2.connected(server.address, http2.CALL))
                for _ in range(1_000)
            ]
            answered = sum(http2.answer(connection).allowed for connection in connections)
            assert answered == 1_000
            record("memory while they were there, MiB", server.memory() >> 20)
            with fault.expected_to_serve():
                pass
    assert set(fault.outcomes) == {"answered"}


def sized(size: int) -> access_pb2.CheckQueueAccessRequest:
    """Return a request of exactly so many bytes."""
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="carol", groups=["g" * 200] * (size // 203 - 10)),
        queue="root.open",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    request.partition = ""
    request.user.groups.append("g")
    while (missing := size - request.ByteSize()) > 0:
        request.user.groups.append("g" * min(missing - 2, 120))
    return request


def test_messages_at_and_over_the_limit(server: RunningServer, record: Record) -> None:
    with observed(server, record) as fault, grpc.insecure_channel(server.address) as channel:
        stub = AccessServiceStub(channel)
        codes = []
        for size in (MOST_BYTES, MOST_BYTES + 1, 4 * MOST_BYTES):
            request = sized(size)
            assert request.ByteSize() == size
            for _ in range(5):
                try:
                    stub.CheckQueueAccess(request, timeout=MOST_SECONDS)
                except grpc.RpcError as error:
                    codes.append((size, error.code(), error.details()))
                else:
                    codes.append((size, grpc.StatusCode.OK, ""))
        print(codes)
        with fault.expected_to_serve():
            pass
    assert set(fault.outcomes) == {"answered"}


def test_ten_thousand_streams(server: RunningServer, record: Record) -> None:
    with observed(server, record) as fault, ExitStack() as held:
        with grpc.insecure_channel(server.address) as channel:
            stub = AccessServiceStub(channel)
            streams = [stub.StreamQueueAccess(iter([]), timeout=30) for _ in range(100)]
            print(len(streams))
        with fault.expected_to_serve():
            pass
    assert set(fault.outcomes) == {"answered"}
