"""Streams of messages that no gate would send, against a real server."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2
from tests.support.gates import decides_itself, live_gate
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server
from tests.support.servers.two_partitions import POLICY
from tests.support.sync_stream import SyncStream, sync_request

STREAMS: Final = 1_000
_NAMES: Final = ("", "a", "default", "[rm]default", "\x00", "é" * 500, "x" * 1_025)
_NUMBERS: Final = (0, 1, 2, 3, 2**63, 2**64 - 1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    policy = tmp_path / "queues.yaml"
    policy.write_text(POLICY)
    audit = (
        "--set",
        f"audit.path={tmp_path / 'audit.log'}",
        "--set",
        "sync.local_decisions=allow",
    )
    with running_server("--policy", str(policy), *ADMIN, *audit) as running:
        yield running


def _open(rng: random.Random, epoch: bytes) -> dict[str, Any]:
    def name() -> str:
        return rng.choice(_NAMES)

    return {
        "name": name(),
        "partitions": [name() for _ in range(rng.randrange(3))],
        "held": [
            {
                "partition": name(),
                "checksum": rng.randbytes(rng.choice((0, 32, 65))),
                "resolver_fingerprint": rng.randbytes(rng.choice((0, 32, 65))),
            }
            for _ in range(rng.randrange(3))
        ],
        "instance": rng.randbytes(rng.choice((0, 15, 16))),
        "rules": [rng.choice((RULES, 2**32 - 1))],
        "stale_millis": rng.choice(_NUMBERS),
        "agent": name(),
        "resume": {
            "epoch": rng.choice((b"", epoch, rng.randbytes(16))),
            "sequence": rng.choice(_NUMBERS),
        },
        "fleet_cursor": {
            "epoch": rng.randbytes(rng.choice((0, 16, 24, 65))),
            "sequence": rng.choice(_NUMBERS),
        },
    }


def _message(rng: random.Random, epoch: bytes) -> bytes:
    kind = rng.choice(("open", "ping", "applied", "want", "report", "release", "damaged", "none"))
    if kind == "none":
        return b""
    if kind == "report":  # of a gate with an outbox, which the contract no longer knows
        report = rng.randbytes(rng.randrange(100))
        return bytes([5 << 3 | 2, len(report), *report])
    if kind == "damaged":
        message = bytearray(_message(rng, epoch))
        for _ in range(min(len(message), 3)):
            message[rng.randrange(len(message))] = rng.randrange(256)
        return bytes(message)
    fields: dict[str, Callable[[], dict[str, Any]]] = {
        "open": lambda: _open(rng, epoch),
        "ping": lambda: {
            "id": rng.choice(_NUMBERS),
            "counts": {"decided": rng.choice(_NUMBERS), "fallbacks": rng.choice(_NUMBERS)},
        },
        "applied": lambda: {"sequence": rng.choice(_NUMBERS)},
        "want": lambda: {"partition": rng.choice(_NAMES), "users": rng.choices(_NAMES, k=3)},
        "release": lambda: {"closed": rng.random() < 0.5},
    }
    return sync_request(kind, **fields[kind]()).SerializeToString()


def test_a_server_refuses_what_no_gate_sends_and_goes_on(
    tmp_path: Path, server: RunningServer
) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    ends: Counter[str] = Counter()
    with grpc.insecure_channel(server.address) as channel:
        first = SyncStream(channel)
        epoch = first.open().epoch
        first.close()
        method: Any = channel.stream_stream("/queuegate.v1.SyncService/Sync")
        for _ in range(STREAMS):
            messages = [_message(rng, epoch) for _ in range(rng.randrange(1, 6))]
            if rng.random() < 0.8:
                known = {"rules": [RULES], "resume": {"epoch": epoch, "sequence": rng.randrange(3)}}
                messages.insert(0, sync_request("open", **known).SerializeToString())
            try:
                for response in method(iter(messages), timeout=60):
                    assert sync_pb2.SyncResponse.FromString(response).WhichOneof("message")
                ends["OK"] += 1
            except grpc.RpcError as error:
                ends[error.code().name] += 1
    assert ends.keys() == {"OK", "INVALID_ARGUMENT"}, f"seed {seed}: {ends}"
    with live_gate(server.address) as gate:
        assert decides_itself(gate, "alice", "root.work")
