"""A server with an audit log has every decision, or gates do not decide."""

from pathlib import Path
from typing import Any

import pytest

import queuegate
from queuegate import GateState
from queuegate.gate import outbox
from tests.support.eventually import eventually
from tests.support.gates import KINDS, decides_itself, live_gate
from tests.support.servers.audited_server import POLICY, audit_records
from tests.support.servers.free_ports import free_port
from tests.support.servers.queuegate_server import ADMIN, running_server

REPORT = ("--set", "sync.local_decisions=report")


def arguments(folder: Path, *others: str) -> tuple[str, ...]:
    (folder / "queues.yaml").write_text(POLICY)
    log = ("--set", f"audit.path={folder / 'audit.log'}", "--set", "audit.records=all")
    return ("--policy", str(folder / "queues.yaml"), *log, *ADMIN, *others)


def reported(folder: Path) -> list[dict[str, Any]]:
    return [record for record in audit_records(folder) if record["method"] == "Sync"]


@pytest.mark.parametrize(("others", "has_outbox"), [((), True), (REPORT, False)])
def test_a_gate_may_not_decide(tmp_path: Path, others: tuple[str, ...], has_outbox: bool) -> None:
    folder = tmp_path / "outbox" if has_outbox else None
    with (
        running_server(*arguments(tmp_path, *others)) as server,
        queuegate.Gate(server.address, timeout=60, outbox=folder) as gate,
    ):
        eventually(lambda: gate.state, GateState.FORBIDDEN)
        assert not decides_itself(gate, "alice", "root.team")
        assert len(audit_records(tmp_path)) == 1


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
        eventually(lambda: len(audit_records(tmp_path)), 50)


def test_an_outbox_belongs_to_one_gate(tmp_path: Path) -> None:
    with queuegate.Gate("127.0.0.1:1", outbox=tmp_path), pytest.raises(BlockingIOError):
        queuegate.Gate("127.0.0.1:1", outbox=tmp_path)
    queuegate.Gate("127.0.0.1:1", outbox=tmp_path).close()
