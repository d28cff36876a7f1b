"""A server with an audit log has every decision, or gates do not decide."""

import json
from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import GateState
from queuegate.gate import outbox
from queuegate.v1 import access_pb2, sync_pb2
from tests.support.eventually import eventually
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers import admin_port
from tests.support.servers.audited_server import POLICY, audit_records
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.sync_stream import sync_streams

REPORT = ("--set", "sync.local_decisions=report")


def arguments(folder: Path, *others: str) -> tuple[str, ...]:
    (folder / "queues.yaml").write_text(POLICY)
    log = ("--set", f"audit.path={folder / 'audit.log'}", "--set", "audit.records=all")
    return ("--policy", str(folder / "queues.yaml"), *log, *ADMIN, *others)


def recorded(folder: Path) -> list[dict[str, Any]]:
    """Return the records so far; the last one may be on its way."""
    whole, _, _ = (folder / "audit.log").read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def reported(folder: Path) -> list[dict[str, Any]]:
    return [record for record in recorded(folder) if record["method"] == "Sync"]


@pytest.mark.parametrize(
    ("others", "has_outbox", "remedy"),
    [((), True, "sync.local_decisions"), (REPORT, False, "give the gate an outbox")],
)
def test_a_gate_may_not_decide(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    others: tuple[str, ...],
    has_outbox: bool,
    remedy: str,
) -> None:
    folder = tmp_path / "outbox" if has_outbox else None
    with (
        running_server(*arguments(tmp_path, *others)) as server,
        queuegate.Gate(server.address, timeout=60, outbox=folder) as gate,
    ):
        eventually(lambda: gate.state, GateState.FORBIDDEN)
        assert not decides_itself(gate, "alice", "root.team")
        assert len(audit_records(tmp_path)) == 1
        [logged] = caplog.messages
        assert remedy in logged


@pytest.mark.parametrize("kind", KINDS)
def test_each_decision_is_reported(tmp_path: Path, kind: str) -> None:
    with (
        running_server(*arguments(tmp_path, *REPORT)) as server,
        live_gate(server.address, kind, name="shim 7", outbox=tmp_path / "outbox") as gate,
    ):
        for number in range(2_500):
            assert decides_itself(gate, "alice", "root.team")
            assert decides_itself(gate, f"u{number}", "root.@recovery@", groups=("a", "b"))
        eventually(lambda: len(reported(tmp_path)), 5_000)
        first, second, *_ = reported(tmp_path)
        assert first.pop("time").endswith("Z")
        assert first.pop("received").endswith("Z")
        assert first == {
            "caller": "loopback",
            "method": "Sync",
            "user": "alice",
            "partition": "default",
            "queue": "root.team",
            "access": "submit",
            "decision": "allowed",
            "reason": "user",
            "matched_queue": "root.team",
            "matched_name": "alice",
            "revision": 1,
            "decided_by": "shim 7",
        }
        assert (second["user"], second["decision"]) == ("u0", "denied")
        assert second["groups_in_request"] == 2
        eventually(lambda: any((tmp_path / "outbox").glob("*.decisions")), expected=False)


def test_decisions_wait_on_disk_while_the_server_is_away(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    started = arguments(tmp_path, *REPORT)
    with running_server(*started, listen=[address]):
        gate = queuegate.Gate(address, timeout=1, outbox=tmp_path / "outbox", stale=600)
        eventually(lambda: gate.state, GateState.LIVE)
    for number in range(100):
        assert gate.check("alice", f"root.team.q{number}").allowed
    gate.close()
    assert [*(tmp_path / "outbox").glob("*.decisions")]
    with (
        running_server(*started, listen=[address]) as server,
        live_gate(server.address, outbox=tmp_path / "outbox"),
    ):
        eventually(lambda: len(reported(tmp_path)), 100)
        queues = [record["queue"] for record in reported(tmp_path)]
        assert queues == [f"root.team.q{number}" for number in range(100)]


def test_a_full_outbox_has_the_server_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_BYTES", 100)
    with (
        running_server(*arguments(tmp_path, *REPORT)) as server,
        live_gate(server.address, outbox=tmp_path / "outbox") as gate,
    ):
        asked = [decides_itself(gate, "alice", "root.team") for _ in range(50)]
        assert False in asked
        eventually(lambda: len(recorded(tmp_path)), 50)


def test_an_outbox_belongs_to_one_gate(tmp_path: Path) -> None:
    with queuegate.Gate("127.0.0.1:1", outbox=tmp_path), pytest.raises(BlockingIOError):
        queuegate.Gate("127.0.0.1:1", outbox=tmp_path)
    queuegate.Gate("127.0.0.1:1", outbox=tmp_path).close()


def test_damaged_decisions_are_refused_one_by_one(tmp_path: Path) -> None:
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

    damaged: tuple[tuple[dict[str, Any], str], ...] = (
        ({"time": {"seconds": 1 << 60}}, "time: must be between the years 1970 and 9999"),
        ({"time": {"nanos": -1}}, "time: must be between the years 1970 and 9999"),
        ({"user": "x" * 1_025}, "user: is longer than 1024 bytes"),
        ({"user": "a\nb"}, "user: has a control character"),
        ({"partition": "x" * 1_025}, "partition: is longer than 1024 bytes"),
        ({"real_user": "x" * 1_025}, "real_user: is longer than 1024 bytes"),
        ({"queue": "x" * 4_097}, "queue: is longer than 4096 bytes"),
        ({"access": 77}, "access: must be ACCESS_TYPE_SUBMIT or ACCESS_TYPE_ADMIN"),
        ({"groups_in_request": 10_001}, "groups_in_request: is more than 10000"),
        ({"decision": {"reason": 77}}, "decision.reason: is not a decision reason"),
        (
            {"decision": {"reason": access_pb2.REASON_NO_MATCH}},
            "decision.allowed: contradicts the reason",
        ),
        (
            {"decision": {"matched_subject": "x" * 1_025}},
            "decision.matched_subject: is longer than 1024 bytes",
        ),
        (
            {"decision": {"matched_queue": "x" * 4_097}},
            "decision.matched_queue: is longer than 4096 bytes",
        ),
        (
            {"decision": {"evaluated_queue": "x" * 4_097}},
            "decision.evaluated_queue: is longer than 4096 bytes",
        ),
        ({"queue": "root.a\nb"}, "queue: has a control character"),
        (
            {"decision": {"matched_queue": "a\nb"}},
            "decision.matched_queue: has a control character",
        ),
    )
    reports = [[decision(), *(decision(**changed) for changed, _ in damaged), decision()]]
    reports += [[sync_pb2.LocalDecision()], [decision(queue="root.later")]]
    with (
        running_server(*arguments(tmp_path, *REPORT, *admin_port.LISTEN)) as server,
        sync_streams(server.address) as opening,
    ):
        stream = opening()
        stream.open()
        answers = []
        for number, decisions in enumerate(reports, start=1):
            stream.send("report", id=number, decisions=decisions)
            answers.append(stream.until("reported").reported)
        assert [each.id for each in answers] == [1, 2, 3]
        refused = [(each.index, each.fault) for each in answers[0].refused]
        assert refused == [(index, fault) for index, (_, fault) in enumerate(damaged, start=1)]
        [empty] = answers[1].refused
        assert empty.fault.startswith("time: is required; user: is required; queue: is required;")
        assert not answers[2].refused
        ops = admin_port.ops_address(server)
        for result, count in (("recorded", 3), ("refused", len(damaged) + 1)):
            assert admin_port.value(ops, "queuegate_sync_decisions_total", result) == count
        eventually(
            lambda: [record["queue"] for record in reported(tmp_path)],
            ["root.team", "root.team", "root.later"],
        )
        logged = server.wait_for_log("a gate reported invalid decisions, which are not recorded")
        assert logged["decisions"] == len(damaged)
        for count in (0, 1_001):
            other = opening()
            other.open()
            other.send("report", id=1, decisions=[decision()] * count)
            code, details = other.status()
            assert (code, details) == (
                "INVALID_ARGUMENT",
                "report.decisions: must have 1 to 1000 decisions",
            )
