"""Reports of gates: at their caller's rate, of bounded size, with the time of their receipt."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import GateState
from queuegate.v1 import access_pb2, sync_pb2
from tests.integration.sync.test_reports import REPORT, arguments, reported
from tests.support.eventually import eventually
from tests.support.gates import KINDS, live_gate
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import RunningServer, running_server
from tests.support.sync_stream import sync_streams

RATE = 100


def limited(rate: int = RATE, burst: int = 10) -> tuple[str, ...]:
    rates = (f"limits.caller_rate={rate}", f"limits.caller_burst={burst}")
    return (*REPORT, *(each for rate in rates for each in ("--set", rate)))


def decision(**changed: Any) -> sync_pb2.LocalDecision:
    made = sync_pb2.LocalDecision(
        user="alice",
        queue="root.team",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        decision=access_pb2.CheckQueueAccessResponse(
            allowed=True, reason=access_pb2.REASON_USER, matched_queue="root.team"
        ),
    )
    made.time.FromSeconds(1_700_000_000)
    made.MergeFrom(sync_pb2.LocalDecision(**changed))
    return made


@contextmanager
def reporting(folder: Path, *others: str) -> Iterator[tuple[RunningServer, Any]]:
    with (
        running_server(*arguments(folder, *(others or REPORT))) as server,
        sync_streams(server.address) as opening,
    ):
        yield server, opening


def test_reports_are_charged_to_their_caller(tmp_path: Path) -> None:
    """On several streams as on one: each report waits for the decisions of the one before."""
    with reporting(tmp_path, *limited()) as (_, opening):
        streams = [opening() for _ in range(3)]
        for stream in streams:
            stream.open()
        begin = time.monotonic()
        for number, stream in enumerate(streams, start=1):
            stream.send("report", id=number, decisions=[decision()] * RATE)
        for stream in streams:
            stream.until("reported")
        for stream in streams[:1]:
            stream.lease()
            stream.send("report", id=9, decisions=[decision()])
            stream.until("reported")
        seconds = time.monotonic() - begin
        # The bucket has 10 tokens at first, and gets 100 in a second.
        assert seconds >= 3 * (RATE - 10) / RATE - 0.1
        assert len(reported(tmp_path)) == 3 * RATE + 1


def test_a_stream_whose_report_waits_keeps_its_lease(tmp_path: Path) -> None:
    with reporting(tmp_path, *limited(rate=1)) as (_, opening):
        stream = opening()
        stream.open()
        for number in (1, 2):
            stream.send("report", id=number, decisions=[decision()] * 1_000)
            if number == 1:
                stream.until("reported")
        stream.lease()
        stream.send("report", id=3, decisions=[decision()])
        code, details = stream.status()
        assert (code, details) == (
            "RESOURCE_EXHAUSTED",
            "a report must wait until the previous one is confirmed",
        )
        assert len(reported(tmp_path)) == 1_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_catches_up_after_an_outage(tmp_path: Path, kind: str) -> None:
    """All decisions arrive, at the rate of the caller, and the gate decides and asks meanwhile."""
    address = f"127.0.0.1:{free_port()}"
    started = arguments(tmp_path, *limited(rate=500, burst=100))
    with running_server(*started, listen=[address]):
        gate = KINDS[kind](address, timeout=60, outbox=tmp_path / "outbox", stale=600)
        eventually(lambda: gate.state, GateState.LIVE)
    for number in range(2_000):
        assert gate.check("alice", f"root.team.q{number}").allowed
    with running_server(*started, listen=[address]):
        eventually(lambda: gate.state, GateState.LIVE)
        while (found := gate.outbox_counts) and found.confirmed < 2_000:
            eventually(lambda: gate.state, GateState.LIVE)
            assert gate.check("alice", "root.team").allowed
            time.sleep(0.05)
        gate.close()
        assert found.rejected == 0
        queues = {record["queue"] for record in reported(tmp_path)}
        assert queues >= {f"root.team.q{number}" for number in range(2_000)}


def test_a_record_has_the_time_of_its_receipt(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    with reporting(tmp_path) as (_, opening):
        stream = opening()
        stream.open()
        stream.send("report", id=1, decisions=[decision()])
        stream.until("reported")
        [record] = reported(tmp_path)
    assert record["time"] == "2023-11-14T22:13:20.000000Z"
    assert before <= datetime.fromisoformat(record["received"]) <= datetime.now(UTC)


def test_a_report_is_bounded(tmp_path: Path) -> None:
    large = {"user": "u" * 1_024, "queue": "q" * 4_096}
    with reporting(tmp_path) as (_, opening):
        stream = opening()
        stream.open()
        stream.send("report", id=1, decisions=[decision(**large)] * 90)
        assert not stream.until("reported").reported.refused
        stream.send("report", id=2, decisions=[decision(**large)] * 110)
        assert stream.status() == (
            "INVALID_ARGUMENT",
            "report: is longer than 524288 bytes",
        )
        other = opening()
        other.send("open", name="x" * 3_000_000)
        assert other.status() == ("INVALID_ARGUMENT", "is longer than 2097152 bytes")
        another = opening()
        another.send("open", held=[{}] * 21_001)
        assert another.status() == ("INVALID_ARGUMENT", "has more than 21000 fields")


def test_refused_decisions_are_logged_at_a_bounded_rate(tmp_path: Path) -> None:
    with reporting(tmp_path) as (server, opening):
        stream = opening()
        stream.open()
        for number in range(1, 201):
            stream.send("report", id=number, decisions=[decision(access=77)] * 10)
            assert len(stream.until("reported").reported.refused) == 10
        stream.close()
        text = "a gate reported invalid decisions, which are not recorded"
        assert server.wait_for_log(text)["decisions"] == 10
        assert server.stop() == 0
        lines = [line for line in server.logs if line.get("event") == text]
    assert 1 <= len(lines) <= 3, "one in ten seconds"
    assert sum(line["decisions"] for line in lines) <= 2_000


def test_a_gate_is_asked_to_wait_and_does(tmp_path: Path) -> None:
    """Opening a stream counts as a call: a gate above its rate waits as long as the server asks."""
    with (
        running_server(*arguments(tmp_path, *limited(rate=1, burst=1))) as server,
        live_gate(server.address, outbox=tmp_path / "outbox") as gate,
    ):
        assert gate.check("alice", "root.team").allowed
        with queuegate.Gate(server.address, outbox=tmp_path / "other") as second:
            eventually(lambda: second.state, GateState.LIVE)
