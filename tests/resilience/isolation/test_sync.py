"""Nobody takes the service from others by streams of gates: the most expensive legal message of
each kind, and messages that are refused.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

import grpc
import pytest

from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2
from tests.resilience.invariants import Record
from tests.resilience.isolation.conftest import policy_of
from tests.resilience.isolation.promise import Observation, expect_isolation, observed
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.sync_stream import sync_request

CALLERS = 4
SECONDS = 2.0
OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
OPEN: Final = sync_request("open", rules=[RULES]).SerializeToString()


@pytest.fixture(
    scope="module",
    params=[
        ("grpcio", ""),
        ("grpcio", "limits.caller_rate=1"),
        ("native", ""),
        ("native", "limits.caller_rate=1"),
    ],
    ids=["grpcio", "grpcio with a rate", "native", "native with a rate"],
)
def audited(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Observation]:
    """A server over either transport, and a neighbour, who is another caller."""
    transport, rate = request.param
    folder = tmp_path_factory.mktemp("audited")
    policy = folder / "queues.yaml"
    policy.write_text(policy_of(50_000))
    settings = [
        f"audit.path={folder / 'audit.log'}",
        "sync.local_decisions=allow",
        "limits.caller_burst=1000000",
        f"transport={transport}",
    ]
    if rate:
        settings.append(rate)
    sets = [each for setting in settings for each in ("--set", setting)]
    with (
        running_server("--policy", str(policy), *sets, *ADMIN) as server,
        observed(server) as found,
    ):
        assert server.wait_for_log("transport")["transport"] == transport
        yield found


LEGAL: Final[dict[str, bytes]] = {
    "open": OPEN,
    "open with partitions": sync_request(
        "open",
        rules=[RULES] * 100,
        partitions=[f"p{number:048}" for number in range(10_000)],
        held=[{"partition": f"h{number:048}", "checksum": bytes(32)} for number in range(10_000)],
    ).SerializeToString(),
    "want": sync_request(
        "want", users=[f"{number:0999}" for number in range(1_000)]
    ).SerializeToString(),
    "ping": sync_request("ping", id=1).SerializeToString(),
    "ping with counts": sync_request(
        "ping", id=1, counts={"decided": 2**64 - 1, "stale": 2**64 - 1, "fallbacks": 2**64 - 1}
    ).SerializeToString(),
}
REFUSED: Final[dict[str, bytes]] = {
    "open without names": b"\x0a\xfc\xff\x7f" + b"\x22\x00" * ((1 << 20) - 2),
    "report of a gate with an outbox": b"\x2a\xfc\xff\x7f" + b"\x12\x00" * ((1 << 20) - 2),
    "message too long": b"\x2a\xfc\xff\xff\x01" + bytes((4 << 20) - 4),
    "want without names": b"\x22\xfc\xff\x7f" + b"\x12\x00" * ((1 << 20) - 2),
    "no message": b"\xff" * (1 << 20),
}


def flood(address: str, message: bytes) -> None:
    """Send a message on streams, for as long as the flood lasts; read what comes."""
    end = time.monotonic() + SECONDS

    def send() -> None:
        with grpc.insecure_channel(address, OPTIONS) as channel:
            method: Any = channel.stream_stream("/queuegate.v1.SyncService/Sync")
            while (left := end - time.monotonic()) > 0:
                first = [] if message[:1] == b"\x0a" else [OPEN]
                with suppress(grpc.RpcError):
                    for response in method(repeated(first, message, end), timeout=left):
                        if first == [] and response[:1] == b"\x2a":  # the whole policy has come
                            break

    with ThreadPoolExecutor(CALLERS) as pool:
        for sending in [pool.submit(send) for _ in range(CALLERS)]:
            sending.result()


def repeated(first: list[bytes], message: bytes, end: float) -> Iterator[bytes]:
    yield from first
    while time.monotonic() < end:
        yield message
        if not first:
            time.sleep(max(0.0, end - time.monotonic()))  # a second `open` ends the stream
        time.sleep(0.005)


@pytest.mark.parametrize("message", LEGAL.values(), ids=LEGAL)
def test_the_most_expensive_message(audited: Observation, record: Record, message: bytes) -> None:
    expect_isolation(audited, record, lambda: flood(audited.server.address, message))


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
def test_refused_messages(audited: Observation, record: Record, message: bytes) -> None:
    expect_isolation(audited, record, lambda: flood(audited.server.address, message))


def test_gates_that_come_and_go(audited: Observation, record: Record) -> None:
    """Each has a lease, and may use its last state for as long as can be said."""
    expect_isolation(audited, record, lambda: come_and_go(audited.server.address))


def come_and_go(address: str) -> None:
    """Open streams of another gate each, get a lease, and leave, for as long as the flood lasts."""
    end = time.monotonic() + SECONDS
    known = {"partitions": ["none"], "name": "é" * 128, "agent": "é" * 32}

    def send() -> None:
        with grpc.insecure_channel(address, OPTIONS) as channel:
            method: Any = channel.stream_stream("/queuegate.v1.SyncService/Sync")
            while (left := end - time.monotonic()) > 0:
                gate = {"instance": os.urandom(16), "stale_millis": 2**64 - 1, **known}
                messages = (
                    sync_request("open", rules=[RULES], **gate).SerializeToString(),
                    sync_request("ping", id=1).SerializeToString(),
                )
                with suppress(grpc.RpcError):
                    for response in method(iter(messages), timeout=left):
                        if sync_pb2.SyncResponse.FromString(response).HasField("pong"):
                            break

    with ThreadPoolExecutor(CALLERS) as pool:
        for sending in [pool.submit(send) for _ in range(CALLERS)]:
            sending.result()
