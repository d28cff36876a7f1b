"""100,000 random requests through a real socket: right answers, a healthy server, flat memory."""

import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import DecodeError

import queuegate
from queuegate.v1 import access_pb2
from tests.support.batch_results import with_errors
from tests.support.eventually import eventually
from tests.support.generators.policies import policy_text, random_queues
from tests.support.generators.requests import GROUPS, USERS, RequestGenerator
from tests.support.oracles.queue_access import PolicyOracle
from tests.support.oracles.requests import (
    DENIED,
    GRANTED,
    INVALID,
    UNAVAILABLE,
    UNKNOWN_PARTITION,
    RequestOracle,
    known_to_explain,
)
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import ADMIN, RunningServer, running_server

BATCHES = 96
BATCH = 1_000
CALLS = 3_000
STREAMED = 1_000
ACCESS = "/queuegate.v1.AccessService/"
METHODS = [
    *["CheckQueueAccess", "ExplainQueueAccess"] * 3,
    "ListQueues",
]
OTHER_METHODS = [
    f"{ACCESS}ListUsers",
    "/queuegate.v1.UserGroupService/ResolveUserGroups",
    "/queuegate.v1.UserGroupService/InvalidateUserGroups",
    "/queuegate.v1.PolicyService/GetPolicy",
    "/queuegate.v1.PolicyService/ValidatePolicy",
]
CODES = {3: INVALID, 5: UNKNOWN_PARTITION, 14: UNAVAILABLE}


@pytest.fixture
def rng() -> random.Random:
    """Random numbers from the seed that pytest-randomly prints, and that failures name."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def model_and_paths(rng: random.Random) -> tuple[RequestOracle, list[str], str]:
    default = random_queues(rng, 200, USERS, GROUPS)
    table = random_queues(rng, 200, USERS, GROUPS)
    text = policy_text({"default": ("", default), "table": ("test", table)})
    return RequestOracle(PolicyOracle(default), PolicyOracle(table)), [*default, *table], text


@pytest.fixture
def server(
    tmp_path: Path, model_and_paths: tuple[RequestOracle, list[str], str]
) -> Iterator[RunningServer]:
    (tmp_path / "queues.yaml").write_text(model_and_paths[2])
    bounds = ("default", "table")
    few = [f"partitions.{name}.cache.max_entries=1000" for name in bounds]
    options = [part for setting in few for part in ("--set", setting)]
    patient = with_constants.environment(with_constants.NO_OVERLOAD)
    policy = ("--policy", str(tmp_path / "queues.yaml"))
    with running_server(*policy, *options, *ADMIN, environment=patient) as started:
        yield started


def framed(items: Sequence[bytes]) -> bytes:
    """Return the bytes of a batch with items that no message class would write."""
    parts = []
    for item in items:
        size, head = len(item), bytearray(b"\x0a")
        while size >= 0x80:
            head.append(size & 0x7F | 0x80)
            size >>= 7
        head.append(size)
        parts += [bytes(head), item]
    return b"".join(parts)


def outcome(result: access_pb2.CheckResult) -> str:
    if result.HasField("decision"):
        return GRANTED if result.decision.allowed else DENIED
    return CODES.get(result.error.code, f"{result.error.code}: {result.error.message}")


def outcomes(data: bytes) -> list[str]:
    return [outcome(result) for result in _results(data)]


def _results(data: bytes) -> Sequence[access_pb2.CheckResult]:
    return with_errors(access_pb2.BatchCheckQueueAccessResponse.FromString(data).results)


class Fuzz:
    """The requests of one run, and their outcomes."""

    def __init__(self, channel: grpc.Channel, server: RunningServer, model: RequestOracle) -> None:
        self._channel = channel
        self._server = server
        self._model = model

    def _unary(self, method: str) -> "grpc.UnaryUnaryMultiCallable[bytes, bytes]":
        return self._channel.unary_unary(method)

    def send_batches(self, batches: Sequence[bytes]) -> tuple[list[list[str]], int]:
        """Return the outcomes of the items of each batch, and the peak memory."""
        call = self._unary(ACCESS + "BatchCheckQueueAccess")
        answers = []
        most = 0
        pending = call.future(batches[0], timeout=60)
        for batch in (*batches[1:], None):
            answer = pending.result()
            if batch is not None:
                pending = call.future(batch, timeout=60)
            answers.append(outcomes(answer))
            most = max(most, self._server.memory())
        return answers, most

    def judge(self, items: Sequence[bytes], found: Sequence[str]) -> None:
        assert len(found) == len(items)
        for item, came in zip(items, found, strict=True):
            assert came == self._model.expected(item), item.hex()

    def send_damaged_batches(self, batches: Sequence[bytes]) -> int:
        """Send batches of a few items, damaged anywhere; return how many protobuf could read.
        Those are answered item by item.
        """
        call = self._unary(ACCESS + "BatchCheckQueueAccess")
        readable = 0
        for batch, future in [(batch, call.future(batch, timeout=60)) for batch in batches]:
            name = future.code().name
            assert name in {"OK", INVALID}, (batch.hex(), name)
            try:
                items = access_pb2.BatchCheckQueueAccessRequest.FromString(batch).checks
            except DecodeError:
                continue
            readable += 1
            found = outcomes(future.result()) if name == "OK" else []
            self.judge([item.SerializeToString() for item in items], found)
        return readable

    def call(self, method: str, items: Sequence[bytes]) -> None:
        """Make single calls, many at once."""
        call = self._unary(method)
        pending = [(item, call.future(item, timeout=60)) for item in items]
        for item, future in pending:
            name = future.code().name
            assert name in {"OK", INVALID, UNKNOWN_PARTITION, UNAVAILABLE}, (item.hex(), name)
            if method.endswith("/CheckQueueAccess"):
                if name == "OK":
                    answer = access_pb2.CheckQueueAccessResponse.FromString(future.result())
                    name = GRANTED if answer.allowed else DENIED
                assert name == self._model.expected(item), item.hex()
            elif method.endswith("/ExplainQueueAccess"):
                if name == "OK":
                    explained = access_pb2.ExplainQueueAccessResponse.FromString(future.result())
                    name = GRANTED if explained.decision.allowed else DENIED
                assert name == self._model.expected(known_to_explain(item)), item.hex()


@pytest.mark.timeout(300)
def test_random_requests(
    rng: random.Random,
    server: RunningServer,
    model_and_paths: tuple[RequestOracle, list[str], str],
) -> None:
    model, paths, _ = model_and_paths
    requests = RequestGenerator(rng, paths)
    batches = []
    for number in range(BATCHES):
        items = [requests.question() for _ in range(BATCH)]
        if number % 3 == 2:
            items = [requests.mutated(item) for item in items]
        batches.append(items)
    single = [requests.question() for _ in range(CALLS)]
    single = [requests.mutated(item) if rng.random() < 0.5 else item for item in single]
    with grpc.insecure_channel(server.address) as channel:
        fuzz = Fuzz(channel, server, model)
        data = [framed(items) for items in batches]
        found, warm = fuzz.send_batches(data)
        for items, came in zip(batches, found, strict=True):
            fuzz.judge(items, came)
        for start in range(0, CALLS, 200):
            fuzz.call(ACCESS + rng.choice(METHODS), single[start : start + 200])
        few = [framed([requests.question() for _ in range(5)]) for _ in range(600)]
        assert fuzz.send_damaged_batches([requests.mutated(batch) for batch in few]) > 20
        for method in OTHER_METHODS:
            fuzz.call(method, [requests.mutated(item) for item in single[:100]])
        # The same again: the answers stay, and so does the memory. What is left behind is so each
        # time; what an allocator keeps for later is not.
        sizes = [warm]
        while len(sizes) < 4 and (len(sizes) == 1 or sizes[-1] - sizes[-2] >= 8 << 20):
            again, most = fuzz.send_batches(data)
            assert again == found
            sizes.append(most)
        assert sizes[-1] - sizes[-2] < 8 << 20, sizes
        came_of = {name for came in found for name in came}
        # Not every random policy makes the groups of a user matter who cannot be looked up.
        assert came_of | {UNAVAILABLE} == {
            GRANTED,
            DENIED,
            INVALID,
            UNKNOWN_PARTITION,
            UNAVAILABLE,
        }
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.check_health()
        assert client.check("nobody", "root").reason
    ours = [log for log in server.logs if log["logger"].startswith("queuegate_server")]
    assert not [log for log in ours if log["level"] == "error"]


@pytest.mark.parametrize("transport", ["native"], indirect=True)
def test_fewer_random_requests_over_native(
    transport: str,
    rng: random.Random,
    server: RunningServer,
    model_and_paths: tuple[RequestOracle, list[str], str],
) -> None:
    model, paths, _ = model_and_paths
    requests = RequestGenerator(rng, paths)
    items = [requests.question() for _ in range(1_000)]
    items += [requests.mutated(item) for item in items]
    with grpc.insecure_channel(server.address) as channel:
        fuzz = Fuzz(channel, server, model)
        [found], _ = fuzz.send_batches([framed(items)])
        fuzz.judge(items, found)
        for method in ("CheckQueueAccess", "ExplainQueueAccess", "CheckQueueAccessColumns"):
            fuzz.call(ACCESS + method, rng.sample(items, 200))
        few = [framed(rng.sample(items, 5)) for _ in range(100)]
        fuzz.send_damaged_batches([requests.mutated(batch) for batch in few])
    assert server.wait_for_log("transport")["transport"] == transport
    assert not [log for log in server.logs if log["level"] == "error"]


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_GRPC = [
    b"",
    b"\0" * 100,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /queuegate.v1.AccessService/CheckQueueAccess HTTP/1.1\r\n\r\n{}",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 500,  # how TLS begins
    PREFACE,
    PREFACE + b"\xff" * 100,
    PREFACE + b"\0\0\0\4\0\0\0\0\0" * 50,
]


@pytest.mark.usefixtures("transport")
def test_peers_that_speak_no_grpc(rng: random.Random, server: RunningServer) -> None:
    host, _, port = server.address.rpartition(":")
    texts = [*NO_GRPC, *(PREFACE + rng.randbytes(rng.randrange(1, 300)) for _ in range(100))]
    files = Path(f"/proc/{server.pid}/fd")
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.check_health()
        before = len(list(files.iterdir()))
        for text in texts:
            with socket.create_connection((host, int(port)), timeout=60) as peer:
                peer.sendall(text)
        assert client.check_health()
        # The server may just be starting to follow its files; connections would be a hundred.
        eventually(lambda: len(list(files.iterdir())) <= before + 20, expected=True)
