"""YARN as released asks queuegate: real ResourceManagers of three releases, both schedulers."""

import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import queuegate
from queuegate.cli import main
from tests.support.eventually import eventually
from tests.support.servers.queuegate_server import RunningServer
from tests.support.servers.resourcemanager.process import (
    BUILD_SECONDS,
    RELEASES,
    ResourceManager,
)
from tests.support.servers.yarn_cluster import OF_QUEUEGATE, SCHEDULERS, Cluster, stopped

pytestmark = [pytest.mark.timeout(2 * BUILD_SECONDS + 600), pytest.mark.usefixtures("jar")]

LEASE_SECONDS = 5
REFUSAL = re.compile("cannot submit|does not have permission to submit")
"""What the schedulers of YARN say when they deny an application."""


class Yarn(NamedTuple):
    cluster: Cluster
    server: RunningServer
    manager: ResourceManager

    def submit(self, user: str, queue: str, **question: str) -> str:
        """Submit an application, and return its ID."""
        answer = self.manager.ask("submit", user=user, queue=queue, **question)
        assert "error" not in answer, answer["error"]
        application: str = answer["application"]
        eventually(lambda: self.state(application), "ACCEPTED")
        return application

    def may_submit(self, user: str, queue: str, **question: str) -> bool:
        return may_submit(self.manager, user, queue, **question)

    def state(self, application: str) -> str:
        state: str = self.manager.ask("state", user="yarn", application=application)["state"]
        return state


def may_submit(manager: ResourceManager, user: str, queue: str, **question: str) -> bool:
    """Submit an application, and return whether YARN accepts it."""
    answer = manager.ask("submit", user=user, queue=queue, **question)
    if "error" in answer:
        assert "AccessControlException" in answer["error"], answer
        return False
    while True:
        state = manager.ask("state", user="yarn", application=answer["application"])
        if state["state"] == "ACCEPTED":
            return True
        if state["state"] == "FAILED":
            assert REFUSAL.search(state["diagnostics"]), state
            return False
        time.sleep(0.02)


@pytest.fixture(scope="module", params=[f"{r} {s}" for r in RELEASES for s in SCHEDULERS])
def yarn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yarn]:
    release, scheduler = request.param.split()
    cluster = Cluster(tmp_path_factory.mktemp("yarn"), scheduler)
    with cluster.queuegate() as server, cluster.yarn(release) as manager:
        assert "error" not in manager.started, manager.started
        yield Yarn(cluster, server, manager)


def test_submissions(yarn: Yarn) -> None:
    allowed = {
        (user, queue): yarn.may_submit(user, queue)
        for user in ("alice", "bob", "local", "mallory")
        for queue in ("root.a", "root.b", "root.open")
    }
    assert {pair for pair, is_allowed in allowed.items() if is_allowed} == {
        ("alice", "root.a"),
        ("bob", "root.b"),
        *((user, "root.open") for user in ("alice", "bob", "local", "mallory")),
    }


def test_a_service_that_acts_for_a_user(yarn: Yarn) -> None:
    assert yarn.may_submit("alice", "root.a", real_user="livy")
    assert not yarn.may_submit("mallory", "root.a", real_user="livy")


def test_moves(yarn: Yarn) -> None:
    application = yarn.submit("alice", "root.a")
    refused = yarn.manager.ask("move", user="alice", application=application, queue="root.b")
    assert "error" in refused
    moved = yarn.manager.ask("move", user="alice", application=application, queue="root.open")
    assert "error" not in moved, moved


def test_an_administrator_of_the_queue_kills(yarn: Yarn) -> None:
    application = yarn.submit("alice", "root.a")
    assert "error" in yarn.manager.ask("kill", user="mallory", application=application)
    assert "error" not in yarn.manager.ask("kill", user="carol", application=application)
    assert yarn.state(application) == "KILLED"


def test_lists_and_http(yarn: Yarn) -> None:
    answer = yarn.manager.ask("queues", user="bob")["queues"]
    usable = {
        name.rpartition(".")[2] for name, acls in answer.items() if "SUBMIT_APPLICATIONS" in acls
    }
    assert usable == {"b", "open"}
    for user in ("alice", "mallory"):
        answer = yarn.manager.ask("access", user=user, queue="root.a", administrator="carol")
        assert answer["allowed"] == (user == "alice"), answer


def test_yarn_reads_its_file_again(yarn: Yarn) -> None:
    refreshed = yarn.manager.ask("refresh", user="yarn")
    assert "error" not in refreshed, refreshed
    assert yarn.may_submit("alice", "root.a")
    assert not yarn.may_submit("local", "root.a")


def test_a_barrier_covers_the_resource_manager(yarn: Yarn) -> None:
    with queuegate.Client(yarn.server.address, timeout=30) as client:
        client.reload(wait=True)  # the first one waits for callers of the server's last process
        for owner in ("mallory", "alice") * 3:
            yarn.cluster.change({**OF_QUEUEGATE, "a": (owner, "carol")})
            result = client.reload(wait=True)
            assert not result.waited_out
            for user in ("alice", "mallory"):
                assert yarn.may_submit(user, "root.a") == (user == owner)


def test_metrics(yarn: Yarn) -> None:
    def has_counted() -> bool:
        now = yarn.manager.ask("metrics")
        assert now["tag.GateState"] == "live"
        assert now["GateLive"] == "1"
        assert int(now["PolicyRevision"]) > 0
        assert 0 <= int(now["PolicyAgeMillis"]) < LEASE_SECONDS * 1_000
        assert now["Errors"] == "0"
        return int(now["AnswersAllowed"]) > int(before["AnswersAllowed"])

    before = yarn.manager.ask("metrics")
    yarn.may_submit("alice", "root.a")
    eventually(has_counted, expected=True)  # Hadoop collects them every 10 s


def test_the_server_lists_it_with_its_fallbacks(
    yarn: Yarn, capsys: pytest.CaptureFixture[str]
) -> None:
    def gates() -> list[queuegate.FleetGate]:
        with queuegate.Client(yarn.server.address, timeout=30) as client:
            return [each for each in client.get_fleet().gates if each.fallbacks is not None]

    eventually(lambda: len(gates()), 1)
    [before] = gates()
    assert re.fullmatch(r"queuegate-hadoop/\S+ hadoop/3\.\S+", before.agent)
    yarn.may_submit("alice", "root.a")
    eventually(lambda: (gates()[0].decided or 0) > (before.decided or 0), expected=True)
    assert main(["fleet", "--address", yarn.server.address]) == 2
    shown = capsys.readouterr()
    assert f"{before.agent}, " in shown.out
    assert "is not in a fleet (fleet.url is not set): only its gates are shown" in shown.err


def test_a_server_that_is_stopped(yarn: Yarn) -> None:
    def times_of_submissions() -> list[float]:
        answer = yarn.manager.ask("submissions", users=["carol"] * 20, queue="root.open")
        assert "error" not in answer, answer
        times: list[float] = answer["times"]
        return times

    application = yarn.submit("alice", "root.a")
    before = max(times_of_submissions() + times_of_submissions())
    with stopped(yarn.server):
        end, during = time.monotonic() + 2 * LEASE_SECONDS, []
        while time.monotonic() < end:
            during += times_of_submissions()
            time.sleep(0.2)  # YARN accepts a few thousand applications in a queue
        # If checks waited for the server, all submissions would, and each at least for a deadline.
        assert statistics.quantiles(during, n=20)[-1] < before + 0.5, (before, during)
        assert yarn.may_submit("local", "root.a")  # by YARN's own ACLs
        assert not yarn.may_submit("alice", "root.a")
        assert "error" in yarn.manager.ask("kill", user="mallory", application=application)
    eventually(lambda: yarn.may_submit("alice", "root.a"), expected=True)
    assert not yarn.may_submit("local", "root.a")


@pytest.mark.parametrize(
    ("release", "scheduler"), [*zip(RELEASES, ("fair", "capacity", "fair"), strict=True)]
)
def test_a_server_that_starts_late_and_is_killed_and_returns_with_another_policy(
    release: str, scheduler: str, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path, scheduler)
    with cluster.yarn(release, start_timeout="500ms") as manager:
        assert "error" not in manager.started, manager.started
        assert may_submit(manager, "local", "root.a")  # by YARN's own ACLs
        assert "queuegate did not send a policy within 500 ms" in manager.log
        assert "fell back (gate: connecting)" in manager.log
        with cluster.queuegate() as server:
            eventually(lambda: may_submit(manager, "alice", "root.a"), expected=True)
            assert not may_submit(manager, "local", "root.a")
            server.process.kill()
            eventually(lambda: may_submit(manager, "alice", "root.a"), expected=False)
            assert may_submit(manager, "local", "root.a")
        cluster.change({**OF_QUEUEGATE, "a": ("mallory", "carol")})
        with cluster.queuegate():
            eventually(lambda: may_submit(manager, "mallory", "root.a"), expected=True)
            assert not may_submit(manager, "alice", "root.a")
            assert not may_submit(manager, "local", "root.a")
