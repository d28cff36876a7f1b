"""Under a server with an audit log, gates ask, or decide and tell their own program."""

from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import GateState
from tests.support.eventually import eventually
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.audited_server import POLICY, audit_records
from tests.support.servers.queuegate_server import ADMIN, running_server
from tests.support.sync_stream import sync_streams
from tests.unit.sync.test_session import OLD_REPORT

ALLOW = ("--set", "sync.local_decisions=allow")


def arguments(folder: Path, *others: str) -> tuple[str, ...]:
    (folder / "queues.yaml").write_text(POLICY)
    log = ("--set", f"audit.path={folder / 'audit.log'}", "--set", "audit.records=all")
    return ("--policy", str(folder / "queues.yaml"), *log, *ADMIN, *others)


def test_a_gate_may_not_decide(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []
    with (
        running_server(*arguments(tmp_path)) as server,
        queuegate.Gate(server.address, timeout=60, on_decision=told.append) as gate,
    ):
        eventually(lambda: gate.state, GateState.FORBIDDEN)
        assert not decides_itself(gate, "alice", "root.team")
        assert len(audit_records(tmp_path)) == 1
        assert told == []
        [logged] = caplog.messages
        assert "sync.local_decisions" in logged


@pytest.mark.parametrize("kind", KINDS)
def test_each_decision_is_told_as_the_server_records_it(tmp_path: Path, kind: str) -> None:
    questions: list[dict[str, Any]] = [
        {"user": "alice", "queue": "root.team"},
        {"user": "alice", "queue": "root.team", "partition": "[rm]default"},
        {"user": "bob", "queue": "root.@recovery@", "groups": ["a", "b"]},
        {"user": "bob", "queue": "root.@recovery@", "access": "submit", "groups": []},
    ]
    told: list[dict[str, Any]] = []
    with running_server(*arguments(tmp_path, *ALLOW)) as server:
        with queuegate.Client(server.address, timeout=60) as client:
            for question in questions:
                client.check(**question)
        asked = audit_records(tmp_path)
        with live_gate(server.address, kind, name="shim 7", on_decision=told.append) as gate:
            for question in questions:
                assert decides_itself(gate, **question)
            gate.check_many([queuegate.Check(**question) for question in questions])
            gate.list_queues("alice")  # no server records this call either
            assert gate.decided == len(told) == 2 * len(questions)
        assert len(audit_records(tmp_path)) == len(asked)
    for record, own in zip(asked * 2, told, strict=True):
        assert list(own) == list(record)
        assert own["caller"] == "gate:shim 7"
        differing = {key for key in record if own[key] != record[key]}
        assert differing == {"time", "caller"}


def test_a_stream_reports_nothing(tmp_path: Path) -> None:
    """A gate with an outbox reads in field 6 that it may decide, and reports with field 5."""
    with (
        running_server(*arguments(tmp_path, *ALLOW)) as server,
        sync_streams(server.address) as opening,
    ):
        stream = opening()
        assert 6 not in stream.open().DESCRIPTOR.fields_by_number
        stream.send_message(OLD_REPORT)
        code, details = stream.status()
        assert (code, details) == ("INVALID_ARGUMENT", "message: `message` must be set")
        assert not audit_records(tmp_path)


def test_a_gate_is_asked_to_wait_and_does(tmp_path: Path) -> None:
    """Opening a stream counts as a call: a gate above its rate waits as long as the server asks."""
    rate = ("--set", "limits.caller_rate=1", "--set", "limits.caller_burst=1")
    with (
        running_server(*arguments(tmp_path, *ALLOW, *rate)) as server,
        live_gate(server.address) as gate,
    ):
        assert gate.check("alice", "root.team").allowed
        with queuegate.Gate(server.address) as second:
            eventually(lambda: second.state, GateState.LIVE)


def test_messages_of_gates_are_bounded(tmp_path: Path) -> None:
    with running_server(*arguments(tmp_path)) as server, sync_streams(server.address) as opening:
        stream = opening()
        stream.send("open", name="x" * 3_000_000)
        assert stream.status() == ("INVALID_ARGUMENT", "is longer than 2097152 bytes")
        other = opening()
        other.send("open", held=[{}] * 21_001)
        assert other.status() == ("INVALID_ARGUMENT", "has more than 21000 fields")
