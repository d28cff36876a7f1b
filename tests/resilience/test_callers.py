"""Callers that send too little, too much, or too often."""

from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2
from queuegate.v1.access_pb2_grpc import AccessServiceStub
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from tests.resilience import http2
from tests.resilience.invariants import Record, count_descriptors, under_load
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import RunningServer, running_server

MAX_BYTES = 4 << 20
MOST_SECONDS = 60
HEAP = 128 << 20
"""However often thousands of connections or streams come and go, the heap of the server stays
between 40 and 90 MiB above that of a new one, in pieces; 4 KiB for each of 30,000 streams would
be as much.
"""


def test_half_a_frame(policy_file: Path, record: Record) -> None:
    """Ten callers stop at each of several places, and stay connected."""
    hasty = with_constants.environment({"transports.grpcio.HANDSHAKE_SECONDS": 1})
    with (
        running_server("--policy", str(policy_file), environment=hasty) as server,
        under_load(server, record) as fault,
        ExitStack() as held,
    ):
        callers = {
            name: [held.enter_context(http2.connected(server.address, sent)) for _ in range(10)]
            for name, sent in http2.HALVES.items()
        }
        with fault.expected_to_serve():
            pass
        for caller in callers["the preface"]:
            assert http2.is_closed(caller)
        record("connections held", 10 * len(http2.HALVES))
    assert set(fault.outcomes) == {"answered"}


def test_a_thousand_connections(server: RunningServer, record: Record) -> None:
    """Each asks once and stays."""

    def connect() -> None:
        connections = [http2.connected(server.address, http2.CALL) for _ in range(1_000)]
        try:
            assert all(http2.answer(connection).allowed for connection in connections)
            assert count_descriptors(server.pid) > 1_000
        finally:
            for connection in connections:
                connection.close()

    with under_load(server, record, memory_tolerance=HEAP) as fault:
        connect()
        with fault.expected_to_serve():
            pass
    assert set(fault.outcomes) == {"answered"}


def batch_of(size: int) -> access_pb2.BatchCheckQueueAccessRequest:
    """Return a request of exactly `size` bytes."""

    def check(groups: int, of: int) -> access_pb2.CheckQueueAccessRequest:
        return access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user="alice", groups=["g" * of] * groups),
            queue="root.open",
            access=access_pb2.ACCESS_TYPE_SUBMIT,
        )

    whole = access_pb2.BatchCheckQueueAccessRequest(checks=[check(100, 100)])
    count = size // whole.ByteSize() - 1
    whole = access_pb2.BatchCheckQueueAccessRequest(checks=[check(100, 100)] * count)
    left = size - whole.ByteSize()
    # Two bytes are the head of each group; what is not yet filled, the last one takes.
    last = check(left // 102 - 2, 100)
    whole.checks.append(last)
    left = size - whole.ByteSize()
    whole.checks[-1].user.groups.extend(["g" * (left // 2 - 2), "g" * (left - left // 2 - 2)])
    assert whole.ByteSize() == size
    return whole


def test_messages_at_and_over_the_limit(server: RunningServer, record: Record) -> None:
    with grpc.insecure_channel(server.address) as channel:
        stub = AccessServiceStub(channel)

        def ask() -> None:
            fits = stub.BatchCheckQueueAccess(batch_of(MAX_BYTES), timeout=MOST_SECONDS)
            assert all(result.decision.allowed for result in fits.results)
            for size in (MAX_BYTES + 1, 4 * MAX_BYTES):
                with pytest.raises(grpc.RpcError) as caught:
                    stub.BatchCheckQueueAccess(batch_of(size), timeout=MOST_SECONDS)
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

        with under_load(server, record, memory_tolerance=HEAP) as fault:
            for _ in range(3):
                ask()
            with fault.expected_to_serve():
                pass
    assert set(fault.outcomes) == {"answered"}


def test_ten_thousand_streams(server: RunningServer, record: Record) -> None:
    """On one connection: single calls of others are answered."""

    def open_streams(client: queuegate.Client) -> None:
        # The native transport ends such a connection.
        ended = suppress(BrokenPipeError, ConnectionResetError)
        with http2.connected(server.address, http2.BEGIN) as connection, ended:
            for number in range(10_000):
                connection.sendall(http2.headers("Sync", 2 * number + 1))
                # gRPC also counts streams that are being refused, and beyond its own bound refuses
                # everyone: a server without processor time is not sent more than that.
                if number % 250 == 0:
                    assert client.check("alice", "root.open").allowed
            connection.sendall(http2.PING)
            http2.expect_pong(connection)

    with (
        under_load(server, record, memory_tolerance=HEAP) as fault,
        queuegate.Client(server.address, timeout=60) as client,
    ):
        for _ in range(3):
            open_streams(client)
        with fault.expected_to_serve():
            pass
    assert set(fault.outcomes) == {"answered"}
