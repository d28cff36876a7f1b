"""Replicas that cannot reach Redis, and one that stops."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import queuegate
from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address, value
from tests.support.servers.fleet import Fleet, running_fleet
from tests.support.servers.queuegate_server import RunningServer

NAMES = ("a", "b")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with running_fleet(tmp_path, *NAMES, arguments=LISTEN) as running:
        running.until_agreed()
        yield running


def test_without_redis_each_works_alone_and_says_so(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.directory.answer({"sam": {"groups": ["staff"]}})
    fleet.redis.kill()
    client = fleet.clients["a"]
    with pytest.raises(
        queuegate.ServerUnavailable,
        match=r"reached 1 of 2 replicas: Redis is unavailable \(.*refused",
    ):
        client.invalidate(["sam"], wait=True)
    assert all(fleet.may(name) for name in NAMES)
    eventually(lambda: client.get_fleet().connected, False)
    assert main(["fleet", "--address", fleet.servers["a"].address]) == 1
    assert "cannot use Redis" in capsys.readouterr().err
    ops = ops_address(fleet.servers["a"])
    status, details = get_json(ops, "/readyz")
    assert (status, details["fleet"]["connected"]) == (200, False)
    eventually(lambda: value(ops, "queuegate_fleet_following"), 0.0)

    fleet.redis.start()
    eventually(lambda: client.get_fleet().agreed, True)


def test_errors_in_the_policy_are_reported_even_without_redis(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.redis.kill()
    fleet.policy("a").write_text("partitions: [")
    assert main(["reload", "--address", fleet.servers["a"].address]) == 2
    shown = capsys.readouterr()
    policy, others = shown.out.splitlines()
    assert policy.startswith(f"{fleet.policy('a')}:")
    assert others.startswith("fleet: warning: the reload reached 1 of 2 replicas: Redis is unavail")
    assert "the configuration is invalid; the server keeps serving revision" in shown.err


def test_the_only_replica_names_no_others(tmp_path: Path) -> None:
    with running_fleet(tmp_path, "a") as fleet:
        fleet.until_agreed()
        fleet.redis.kill()
        with pytest.raises(
            queuegate.ServerUnavailable,
            match="reached the only replica known to this one, but is not confirmed: Redis is",
        ):
            fleet.clients["a"].reload()


def test_a_client_does_not_repeat_what_will_reach_the_others_anyway(fleet: Fleet) -> None:
    fleet.redis.kill()
    server = fleet.servers["a"]
    before = admin_calls(server)
    with queuegate.Client(server.address, timeout=60) as client:
        with pytest.raises(queuegate.ServerUnavailable, match="reached 1 of 2"):
            client.invalidate(["sam"])
        client.check("sam", "root.work", groups=())  # its log lines follow those of the first call
    assert admin_calls(server) == before + 1


def admin_calls(server: RunningServer) -> int:
    return sum(entry["event"] == "admin call" for entry in server.logs)


def test_what_was_invalidated_alone_reaches_all_when_redis_is_back(fleet: Fleet) -> None:
    fleet.directory.answer({"sam": {"groups": ["staff"]}})
    assert all(fleet.may(name) for name in NAMES)
    fleet.redis.freeze()
    fleet.directory.answer({"sam": {"groups": ["others"]}})
    with pytest.raises(queuegate.ServerUnavailable, match="reached 1 of 2"):
        fleet.clients["a"].invalidate(["sam"])
    assert fleet.may("a") is False, "here it has taken effect"
    fleet.redis.thaw()
    for name in NAMES:
        eventually(lambda name=name: fleet.may(name), False)  # type: ignore[misc]


def test_a_replica_that_stops_leaves(fleet: Fleet) -> None:
    fleet.servers["b"].stop()
    eventually(lambda: len(fleet.clients["a"].get_fleet().replicas), 1)
    assert "replica b" not in fleet.clients["a"].invalidate(wait=True).waited_out
