"""When both clients try again, and when they do not."""

import json
import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest

import queuegate
from queuegate import Check
from queuegate._channel import plan
from queuegate.exceptions import (
    ServerUnavailable,
)
from queuegate.v1 import access_pb2, policy_pb2, user_groups_pb2
from tests.support.client_calls import CALLS, QUICK, UNAVAILABLE, Ask
from tests.support.fakes.scripted_server import Fault, Script, ScriptedServer


def test_every_unary_call_of_the_contract_is_in_the_table() -> None:
    services = [
        service
        for file in (access_pb2, user_groups_pb2, policy_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
    ]
    unary = {
        method.name
        for service in services
        for method in service.methods
        if not method.client_streaming
    }
    assert unary == {rpc for _, rpc, _ in CALLS}


@pytest.mark.parametrize(("method", "rpc", "args"), CALLS)
async def test_unavailable_is_tried_four_times(
    ask: Ask, script: Script, method: str, rpc: str, args: tuple[Any, ...]
) -> None:
    script.fail(rpc, *[UNAVAILABLE] * 10)
    with pytest.raises(ServerUnavailable) as caught:
        await ask(method, *args)
    assert caught.value.code == "UNAVAILABLE"
    assert len(script.requests(rpc)) == 4


async def test_a_retry_that_succeeds_is_not_noticed(ask: Ask, script: Script) -> None:
    script.fail("CheckQueueAccess", *[UNAVAILABLE] * 3)
    assert await ask("check", "alice", "root")
    assert len(script.calls) == 4


async def test_a_full_size_batch_is_tried_again_too(ask: Ask, script: Script) -> None:
    checks = [Check(f"u{number}", "root." + "q" * 380) for number in range(10_000)]
    script.fail("BatchCheckQueueAccess", UNAVAILABLE)
    results = await ask("check_many", checks)
    assert results[-1].matched_subject == "u9999"
    first, second = script.requests("BatchCheckQueueAccess")
    assert first == second
    assert first.ByteSize() > 4_000_000


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_the_number_of_attempts_is_a_setting(
    server: ScriptedServer, connect: Callable[..., Ask], attempts: int
) -> None:
    retry = queuegate.Retry(attempts, initial_backoff=0.01, max_backoff=0.01)
    ask = connect(server.address, timeout=60, retry=retry)
    server.script.fail("CheckQueueAccess", *[UNAVAILABLE] * 10)
    with pytest.raises(ServerUnavailable):
        await ask("check", "alice", "root")
    assert len(server.script.calls) == attempts


async def test_a_server_that_says_not_to_try_again_is_obeyed(ask: Ask, script: Script) -> None:
    never = Fault(grpc.StatusCode.UNAVAILABLE, trailers=[("grpc-retry-pushback-ms", "-1")])
    script.fail("CheckQueueAccess", never, UNAVAILABLE)
    with pytest.raises(ServerUnavailable):
        await ask("check", "alice", "root")
    assert len(script.calls) == 1


async def test_a_server_that_says_when_to_try_again_is_obeyed(ask: Ask, script: Script) -> None:
    later = Fault(grpc.StatusCode.UNAVAILABLE, trailers=[("grpc-retry-pushback-ms", "200")])
    script.fail("CheckQueueAccess", later)
    start = time.monotonic()
    assert await ask("check", "alice", "root")
    assert time.monotonic() - start >= 0.2
    assert len(script.calls) == 2


async def test_a_health_probe_is_not_tried_again(ask: Ask, script: Script) -> None:
    script.fail("Check", *[UNAVAILABLE] * 5)
    with pytest.raises(ServerUnavailable):
        await ask("check_health")
    assert len(script.calls) == 1


async def test_retries_stay_within_the_time_limit(
    server: ScriptedServer, connect: Callable[..., Ask]
) -> None:
    server.script.fail("CheckQueueAccess", *[UNAVAILABLE] * 10)
    slow = queuegate.Retry(attempts=5, initial_backoff=60, max_backoff=60)
    ask = connect(server.address, timeout=0.3, retry=slow)
    start = time.monotonic()
    with pytest.raises(queuegate.Unavailable):
        await ask("check", "alice", "root")
    assert time.monotonic() - start < 40  # the first pause is 48 s at least


def test_retries_pause_when_most_calls_fail(server: ScriptedServer) -> None:
    """An outage must not multiply the load by the number of attempts."""
    server.script.fail("CheckQueueAccess", *[UNAVAILABLE] * 1_000)
    with queuegate.Client(server.address, timeout=60, retry=QUICK) as client:
        for _ in range(100):
            with pytest.raises(ServerUnavailable):
                client.check("alice", "root")
    assert 100 < len(server.script.calls) < 200


def test_keepalive_is_one_that_servers_accept() -> None:
    options = dict(plan("127.0.0.1:1", 1.0, None, QUICK).options)
    # Servers of default settings count pings within 5 minutes as abuse.
    assert options["grpc.keepalive_time_ms"] >= 300_000
    config = json.loads(options["grpc.service_config"])
    assert config["methodConfig"][0]["retryPolicy"]["retryableStatusCodes"] == [
        "UNAVAILABLE",
        "CANCELLED",
    ]
