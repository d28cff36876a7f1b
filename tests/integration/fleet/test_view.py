"""What the replicas of a fleet show of each other, and reloads that reach all."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import grpc
import pytest

from queuegate import FleetGate, ReplicaState
from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address, value
from tests.support.servers.fleet import Fleet, running_fleet
from tests.support.sync_stream import SyncStream

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), *NAMES, arguments=LISTEN) as running:
        running.until_barriers_are_quick()
        yield running


def test_each_replica_shows_all(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.until_agreed()
    for name in NAMES:
        shown = fleet.clients[name].get_fleet()
        assert [each.name for each in shown.replicas] == [*NAMES]
        assert [each.name for each in shown.replicas if each.is_self] == [name]
        assert {each.state for each in shown.replicas} == {ReplicaState.FOLLOWING}
        assert len({each.policy_checksum for each in shown.replicas}) == 1
    address = fleet.servers["a"].address
    assert main(["fleet", "--address", address]) == 0
    assert "a (this server)  following" in capsys.readouterr().out
    assert main(["-o", "json", "fleet", "--address", address]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agreed"], len(document["replicas"])) == (True, 3)


def _gates(fleet: Fleet, name: str) -> list[FleetGate]:
    return [*fleet.clients[name].get_fleet().gates]


def test_gates_are_shown_by_each_replica(fleet: Fleet) -> None:
    with grpc.insecure_channel(fleet.servers["b"].address) as channel:
        stream = SyncStream(channel)
        stream.open(name="rm1", agent="queuegate-hadoop/1", stale_millis=60_000)
        stream.send("ping", id=1, counts={"decided": 7, "stale": 2, "fallbacks": 3})
        stream.until("pong")
        shown = FleetGate("rm1", "loopback", "queuegate-hadoop/1", "b", 60.0, 7, 2, 3)
        for name in NAMES:
            eventually(partial(_gates, fleet, name), [shown])
        stream.close()
    eventually(lambda: len(_gates(fleet, "a")), 0)
    # The gate has left replica b, and may use its last state.
    [gate] = fleet.clients["a"].reload(wait=True).stale_gates
    assert gate.name == "rm1 (replica b)"
    assert 0 < gate.seconds < 62


def test_probes_and_metrics_show_the_fleet(fleet: Fleet) -> None:
    ops = ops_address(fleet.servers["b"])
    eventually(lambda: get_json(ops, "/readyz")[1]["fleet"]["agreed"], True)
    assert value(ops, "queuegate_fleet_following") == 1
    assert value(ops, "queuegate_fleet_replicas", "following") == 3
    assert value(ops, "queuegate_fleet_policies") == 1
    eventually(lambda: value(ops, "queuegate_fleet_lag"), 0.0)


def test_a_reload_reaches_all_and_names_those_that_differ(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fleet.policy("b").read_text()
    fleet.policy("b").write_text(before.replace("alice staff", "alice"))
    result = fleet.clients["a"].reload(wait=True)
    assert result.succeeded
    assert "'b' serves a different policy" in result.diagnostics[0].message
    assert main(["reload", "--wait", "--address", fleet.servers["a"].address]) == 1
    shown = capsys.readouterr()
    assert "some replicas may not serve the new policy yet" in shown.err
    assert "uses the old policy" not in shown.out
    [problem] = fleet.clients["a"].get_fleet().problems
    assert problem == "the replicas serve different policies: compare their files"
    fleet.policy("b").write_text("partitions: broken")
    result = fleet.clients["a"].reload()
    assert "'b' cannot load its policy" in result.diagnostics[0].message
    eventually(lambda: fleet.clients["c"].get_fleet().agreed, False)
    fleet.policy("b").write_text(before)
    assert fleet.clients["c"].reload(wait=True).diagnostics == ()
    eventually(lambda: fleet.clients["a"].get_fleet().agreed, True)


def test_a_replica_that_is_started_without_redis_is_a_problem_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_fleet(tmp_path) as fleet:
        fleet.redis.kill()
        fleet.start("a", follows=False)
        eventually(lambda: bool(fleet.clients["a"].get_fleet().problems), True)
        assert main(["fleet", "--address", fleet.servers["a"].address]) == 1
        shown = capsys.readouterr()
        assert "a (this server)  alone" in shown.out
        assert "replica a cannot use Redis" in shown.err


def test_mistakes_in_the_settings_of_replicas_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "another secret"
    other.write_text("6" * 64)
    other.chmod(0o600)
    with running_fleet(tmp_path, "a", "b") as fleet:
        fleet.until_agreed()
        fleet.start("c", replica="b")
        eventually(lambda: len(fleet.clients["a"].get_fleet().problems), 1)
        assert main(["fleet", "--address", fleet.servers["a"].address]) == 1
        assert "several running replicas are named b: give each" in capsys.readouterr().err
        fleet.servers["a"].wait_for_log(
            "several running replicas are named b: give each its own fleet.replica"
        )
        fleet.start("d", secret_file=str(other))
        for name in ("a", "d"):
            eventually(partial(warns_of_secrets, fleet, name), True)


def warns_of_secrets(fleet: Fleet, name: str) -> bool:
    return any(
        "with a different secret" in each for each in fleet.clients[name].get_fleet().problems
    )
