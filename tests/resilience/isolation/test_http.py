"""A flood of the HTTP port is nobody else's outage."""

import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus

import pytest

from tests.resilience.invariants import Record
from tests.resilience.isolation.conftest import QUEUES, policy_of
from tests.resilience.isolation.http_floods import FLOODS, flooded
from tests.resilience.isolation.promise import MAX_P99, Observation, expect_isolation, observed
from tests.support.servers.http_port import ACTIONS, LISTEN, asked, connect, exchange, http_address
from tests.support.servers.queuegate_server import running_server

SECONDS = 2.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Observation]]:
    policy = tmp_path_factory.mktemp("http") / "queues.yaml"
    policy.write_text(policy_of(QUEUES))
    with (
        running_server("--policy", str(policy), *LISTEN) as server,
        observed(server) as found,
    ):
        yield http_address(server), found


@pytest.mark.parametrize("flood", FLOODS)
def test_flood(port: tuple[str, Observation], record: Record, flood: str) -> None:
    address, found = port

    def act() -> None:
        with flooded(address, flood):
            time.sleep(SECONDS)

    expect_isolation(found, record, act)


def test_strangers_do_not_delay_a_caller(port: tuple[str, Observation], record: Record) -> None:
    address, _ = port
    seconds = []
    with flooded(address, "batches of strangers"), closing(connect(address)) as opened:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            question = asked("alice", "submit", "root.open")
            assert exchange(opened, ACTIONS, question).status == HTTPStatus.OK
            seconds.append(time.monotonic() - began)
    record("search beside the flood", f"median {statistics.median(seconds) * 1000:.1f} ms")
    assert statistics.median(seconds) < MAX_P99
