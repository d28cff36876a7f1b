"""Random questions about random clusters of YARN through a real socket: right answers, a healthy
server, flat memory.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import pytest

import queuegate
from queuegate.v1 import access_pb2
from tests.support.batch_results import with_errors
from tests.support.generators.requests import RequestGenerator
from tests.support.generators.yarn import random_cluster
from tests.support.generators.yarn_requests import YarnRequestGenerator
from tests.support.oracles.requests import (
    DENIED,
    GRANTED,
    INVALID,
    UNAVAILABLE,
    UNKNOWN_PARTITION,
    known_to_explain,
)
from tests.support.oracles.yarn_requests import YarnRequestOracle
from tests.support.servers import with_constants
from tests.support.servers.queuegate_server import RunningServer, running_server

ACCESS = "/queuegate.v1.AccessService/"
BATCHES = 8
BATCH = 500
CALLS = 400
KINDS = {
    "default": ("fair-scheduler", "documented"),
    "fair": ("fair-scheduler", "hadoop"),
    "capacity": ("capacity-scheduler", "documented"),
    "leaf": ("capacity-scheduler", "hadoop"),
}
CODES = {3: INVALID, 5: UNKNOWN_PARTITION, 14: UNAVAILABLE}


@pytest.fixture
def rng() -> random.Random:
    """Random numbers from the seed that pytest-randomly prints, and that failures name."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def model(rng: random.Random) -> YarnRequestOracle:
    return YarnRequestOracle({name: random_cluster(rng, *kind) for name, kind in KINDS.items()})


@pytest.fixture
def server(tmp_path: Path, model: YarnRequestOracle) -> Iterator[RunningServer]:
    policies = []
    options = []
    for name, found in model.clusters.items():
        (tmp_path / f"{name}.xml").write_text(found.xml())
        (tmp_path / f"{name}-site.xml").write_text(found.site())
        policies.append(
            {
                "path": str(tmp_path / f"{name}.xml"),
                "yarn_site": str(tmp_path / f"{name}-site.xml"),
                "partition": name,
            }
        )
        options += ["--set", f"partitions.{name}.semantics={found.cluster.semantics}"]
    patient = with_constants.environment(with_constants.NO_OVERLOAD)
    options += ["--set", f"policies={json.dumps(policies)}"]
    with running_server(*options, environment=patient) as started:
        yield started


def outcome(result: access_pb2.CheckResult | access_pb2.ApplicationCheckResult) -> str:
    if result.HasField("decision"):
        return GRANTED if result.decision.allowed else DENIED
    return CODES.get(result.error.code, f"{result.error.code}: {result.error.message}")


def of_queues(channel: grpc.Channel, items: Sequence[bytes]) -> list[str]:
    request = access_pb2.BatchCheckQueueAccessRequest(
        checks=[access_pb2.CheckQueueAccessRequest.FromString(item) for item in items]
    )
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        ACCESS + "BatchCheckQueueAccess"
    )
    answer = call(request.SerializeToString(), timeout=60)
    results = access_pb2.BatchCheckQueueAccessResponse.FromString(answer).results
    return [outcome(result) for result in with_errors(results)]


def of_applications(channel: grpc.Channel, items: Sequence[bytes]) -> list[str]:
    request = access_pb2.BatchCheckApplicationAccessRequest(
        checks=[access_pb2.CheckApplicationAccessRequest.FromString(item) for item in items]
    )
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        ACCESS + "BatchCheckApplicationAccess"
    )
    answer = call(request.SerializeToString(), timeout=60)
    results = access_pb2.BatchCheckApplicationAccessResponse.FromString(answer).results
    return [outcome(result) for result in with_errors(results)]


def single(
    channel: grpc.Channel,
    method: str,
    items: Sequence[bytes],
    allowed: Callable[[bytes], bool],
) -> list[str]:
    """Make single calls, many at once, and return their outcomes."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(ACCESS + method)
    found = []
    for future in [call.future(item, timeout=60) for item in items]:
        name = future.code().name
        if name == "OK":
            name = GRANTED if allowed(future.result()) else DENIED
        found.append(name)
    return found


def explained(items: Sequence[bytes]) -> list[bytes]:
    """Wrap questions about applications, damaged or not, into requests to explain them."""
    wrapped = []
    for item in items:
        size = len(item)
        head = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7]))
        wrapped.append(head + item)
    return wrapped


def test_random_requests(
    rng: random.Random, server: RunningServer, model: YarnRequestOracle
) -> None:
    requests = YarnRequestGenerator(rng, model)
    damage = RequestGenerator(rng, []).mutated
    came_of = set()
    kinds = (
        (requests.about_queue, of_queues, model.expected_of_queue),
        (requests.about_application, of_applications, model.expected_of_application),
    )
    with grpc.insecure_channel(server.address) as channel:
        batches = []
        for make, ask, expected in kinds:
            for _ in range(BATCHES):
                items = [make() for _ in range(BATCH)]
                found = ask(channel, items)
                for item, came in zip(items, found, strict=True):
                    assert came == expected(item), (make, item.hex())
                came_of.update(found)
                batches.append((ask, items, found))
        app = access_pb2.CheckApplicationAccessResponse.FromString
        app_explained = access_pb2.ExplainApplicationAccessResponse.FromString
        queue = access_pb2.CheckQueueAccessResponse.FromString
        queue_explained = access_pb2.ExplainQueueAccessResponse.FromString
        apps = [requests.about_application() for _ in range(CALLS)]
        apps = [damage(item) if rng.random() < 0.5 else item for item in apps]
        queues = [requests.about_queue() for _ in range(CALLS)]
        queues = [damage(item) if rng.random() < 0.5 else item for item in queues]
        expect_apps = [model.expected_of_application(item) for item in apps]
        expect_queues = [model.expected_of_queue(item) for item in queues]
        for method, asked, allowed, expect in (
            ("CheckApplicationAccess", apps, lambda data: app(data).allowed, expect_apps),
            (
                "ExplainApplicationAccess",
                explained(apps),
                lambda data: app_explained(data).decision.allowed,
                [model.expected_of_explanation(item) for item in explained(apps)],
            ),
            ("CheckQueueAccess", queues, lambda data: queue(data).allowed, expect_queues),
            (
                "ExplainQueueAccess",
                queues,
                lambda data: queue_explained(data).decision.allowed,
                [model.expected_of_queue(known_to_explain(item)) for item in queues],
            ),
        ):
            found = single(channel, method, asked, allowed)
            for item, came, right in zip(asked, found, expect, strict=True):
                assert came == right, (method, item.hex())
        # A damaged batch is refused as a whole or answered item by item.
        whole = access_pb2.BatchCheckApplicationAccessRequest(
            checks=[
                access_pb2.CheckApplicationAccessRequest.FromString(requests.about_application())
                for _ in range(5)
            ]
        ).SerializeToString()
        damaged = [damage(whole) for _ in range(300)]
        batch_answer = access_pb2.BatchCheckApplicationAccessResponse.FromString
        found = single(
            channel,
            "BatchCheckApplicationAccess",
            damaged,
            lambda data: bool(batch_answer(data).results),
        )
        assert set(found) <= {GRANTED, INVALID}
        # The same again, twice: the answers stay, and so does the memory.
        warm = server.memory()
        for _ in range(2):
            for ask, items, before in batches:
                assert ask(channel, items) == before
            assert server.memory() - warm < 8 << 20
    assert came_of == {GRANTED, DENIED, INVALID, UNKNOWN_PARTITION}
    with queuegate.Client(server.address, timeout=60) as client:
        assert client.check_health()
    ours = [log for log in server.logs if log["logger"].startswith("queuegate_server")]
    assert not [log for log in ours if log["level"] == "error"]
