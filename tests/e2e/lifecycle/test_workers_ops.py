"""The operations port of several workers, also when one of them is missing."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.admin.test_metrics import documented
from tests.support.atomic_files import replace
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get, get_json, ops_address, samples, value
from tests.support.servers.blocking_pipes import blocking_server_command
from tests.support.servers.processes import freeze
from tests.support.servers.queuegate_server import RunningServer, server_command
from tests.support.servers.workers import (
    WORKERS,
    channels,
    check,
    pids,
    send,
    several_workers,
    wait_for_replacement,
    write_policy,
)

STARTED = ("grpc_server_started_total", "CheckQueueAccess")
DECIDED = ("queuegate_decisions_total", "allowed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    policy = str(write_policy(folder))
    audit = f"audit.path={folder / 'audit.log'}"
    with several_workers("--policy", policy, *LISTEN, "--set", audit) as started:
        yield started


def send_calls(server: RunningServer, count: int) -> None:
    with channels(server.address) as opened:
        for number in range(count):
            assert check(opened[number % len(opened)], "alice").allowed


def counts(address: str, *wanted: tuple[str, ...]) -> list[float]:
    """Return some counts when all workers have reported theirs: for a worker that answers late,
    those that it reported before are added up.
    """
    found: dict[tuple[str, frozenset[str]], float] = {}

    def answering() -> int:
        found.clear()
        found.update(samples(address))
        return sum(name == "queuegate_ready" for name, _ in found)

    eventually(answering, WORKERS)
    return [
        sum(
            number
            for (name, values), number in found.items()
            if name == metric and values.issuperset(labels)
        )
        for metric, *labels in wanted
    ]


def readiness(address: str) -> dict[str, Any]:
    status, details = get_json(address, "/readyz")
    assert details["ready"] == (status == 200)
    return {"ready": details["ready"], "serving": details["serving"]}


def test_all_serve(server: RunningServer) -> None:
    address = ops_address(server)
    assert [entry["event"] for entry in server.logs].count("operations port is open") == 1
    assert get(address, "/livez") == (200, "ok\n")
    assert get_json(address, "/startupz") == (200, {"started": True, "phase": "serving"})
    assert set(get_json(address, "/version")[1]) == {"version", "python", "grpc"}
    eventually(lambda: readiness(address), {"ready": True, "serving": WORKERS})
    status, details = get_json(address, "/readyz")
    assert (status, details["ready"], details["phase"]) == (200, True, "serving")
    assert set(details["workers"]) == {str(index) for index in range(WORKERS)}
    for said in details["workers"].values():
        assert (said["ready"], said["policy"]["loaded"]) == (True, True)
    assert "cygrpc" not in Path(f"/proc/{server.pid}/maps").read_text()


def test_known_traffic_is_summed(server: RunningServer) -> None:
    address = ops_address(server)
    wanted = (STARTED, DECIDED, ("grpc_server_handled_total", "CheckQueueAccess", "OK"))
    before = counts(address, *wanted)
    send_calls(server, 50)
    eventually(lambda: counts(address, *wanted), [found + 50 for found in before])
    reported = {labels for name, labels in samples(address) if name == "queuegate_policy_revision"}
    assert reported == {frozenset({str(index)}) for index in range(WORKERS)}


def test_documented_metrics_of_workers(server: RunningServer) -> None:
    served = {}
    for family in text_string_to_metric_families(get(ops_address(server), "/metrics")[1]):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        found = {label for sample in family.samples for label in sample.labels} - {"le"}
        served[name] = (family.type, tuple(sorted(found)))
    expected = documented("Metrics of several workers")
    for name, (kind, labels) in documented("Metrics of the server").items():
        each = kind == "gauge" and name in served and "worker" in served[name][1]
        expected[name] = (kind, tuple(sorted((*labels, "worker"))) if each else labels)
    # Some have no value here: there are no lookups and no directory.
    assert served.keys() == expected.keys()
    assert {name for name, entry in served.items() if entry != expected[name] and entry[1]} == set()


def test_a_worker_that_hangs_does_not_block_the_others(server: RunningServer) -> None:
    address = ops_address(server)
    hanging = pids(server)[1]
    [decided] = counts(address, DECIDED)
    freeze(hanging)
    try:
        eventually(lambda: readiness(address), {"ready": True, "serving": 1})
        _, details = get_json(address, "/readyz")
        assert details["workers"]["1"] == {"ready": False, "error": "no answer within 0.5 s"}
        with ThreadPoolExecutor(10) as threads:
            scrapes = list(threads.map(lambda _: get(address, "/metrics"), range(10)))
        assert {status for status, _ in scrapes} == {200}
        # A request that arrives while another waits for the worker gets the same answer.
        assert len({text for _, text in scrapes}) < 10

        def reported() -> tuple[float, float, set[frozenset[str]]]:
            """Return how many workers serve, how much they decided, and which ones report it."""
            found = samples(address)
            return (
                found["queuegate_workers_serving", frozenset()],
                sum(found[key] for key in found if key[0] == DECIDED[0]),
                {labels for name, labels in found if name == "queuegate_ready"},
            )

        eventually(reported, (1.0, decided, {frozenset({"0"})}))
    finally:
        send(hanging, signal.SIGCONT)
    eventually(lambda: readiness(address), {"ready": True, "serving": 2})


def test_counts_of_a_worker_that_dies_are_kept(server: RunningServer, folder: Path) -> None:
    """An invalid policy prevents its successors from starting."""
    address = ops_address(server)
    processes = pids(server)
    send_calls(server, 10)
    [decided] = counts(address, DECIDED)
    assert decided >= 10
    replace(folder / "queues.yaml", "partitions: [")
    event = "policy is not valid; the last good one stays in use"
    server.wait_for_log(event, count=WORKERS)
    send(processes[0], signal.SIGKILL)
    eventually(lambda: readiness(address), {"ready": True, "serving": 1})
    assert value(address, *DECIDED) == decided
    assert value(address, "queuegate_workers") == WORKERS
    assert value(address, "queuegate_workers_serving") == 1
    eventually(lambda: value(address, "queuegate_workers_replaced_total") >= 1, expected=True)
    send_calls(server, 10)
    eventually(lambda: value(address, *DECIDED), decided + 10)
    send(processes[1], signal.SIGKILL)
    eventually(lambda: readiness(address), {"ready": False, "serving": 0})
    assert value(address, *DECIDED) == decided + 10
    assert get(address, "/livez")[0] == get(address, "/startupz")[0] == 200
    write_policy(folder)
    for index, pid in processes.items():
        wait_for_replacement(server, index, pid)
    eventually(lambda: readiness(address), {"ready": True, "serving": 2})
    send_calls(server, 5)
    eventually(lambda: value(address, *DECIDED), decided + 15)
    assert value(address, "queuegate_workers_replaced_total") >= WORKERS


def test_while_draining() -> None:
    with several_workers(*LISTEN, "--set", "drain.delay=60s") as server:
        address = ops_address(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining", count=WORKERS)
        status, details = get_json(address, "/readyz")
        assert (status, details["ready"], details["phase"]) == (503, False, "draining")
        assert not any(said["ready"] for said in details["workers"].values())
        assert value(address, "queuegate_workers_serving") == 0
        assert get(address, "/livez")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == -signal.SIGTERM


def test_before_the_first_policy(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    os.mkfifo(path)
    process = subprocess.Popen(
        blocking_server_command(
            "serve", "--policy", str(path), "--listen", "127.0.0.1:0", "--set", "workers=2", *LISTEN
        ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        found = re.search(r'"address": ?"([^"]+)"', process.stderr.readline())
        assert found
        address = found[1]
        assert get(address, "/livez")[0] == 200
        assert get_json(address, "/startupz") == (503, {"started": False, "phase": "starting"})
        status, details = get_json(address, "/readyz")
        assert (status, details["phase"]) == (503, "starting")
        assert {said["error"] for said in details["workers"].values()} <= {
            "it is starting",
            "it has ended",
        }
        assert value(address, "queuegate_workers_serving") == 0
    finally:
        process.kill()
        # Lets go of the workers, which wait for somebody to write.
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        process.communicate(timeout=60)


def test_a_port_in_use_is_reported(server: RunningServer) -> None:
    address = ops_address(server)
    ended = subprocess.run(
        server_command(
            "serve", "--listen", "127.0.0.1:0", "--set", "workers=2",
            "--set", f"ops.listen={address}",
        ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert f"cannot listen on '{address}': Address already in use" in ended.stderr
