"""Replicas that stop, and one that is suspended while the others read their policy again."""

import os
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from queuegate_server.fleet.barrier import HEARTBEAT_TIMEOUT, LEASES_TIMEOUT
from tests.support.eventually import eventually
from tests.support.servers.fleet import Fleet, running_fleet
from tests.support.servers.processes import freeze


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), "a", "b", "c", "d") as running:
        running.until_barriers_are_quick()
        yield running


def test_all_others_learn_that_a_replica_has_stopped(fleet: Fleet) -> None:
    """Also those that do not see its last status first."""
    assert fleet.servers["d"].stop() == 0
    others = ["a", "b", "c"]
    for name in others:
        eventually(partial(names, fleet, name), others)
    time.sleep(HEARTBEAT_TIMEOUT)
    for name in others:
        assert fleet.clients[name].get_fleet().agreed
        assert fleet.clients[name].invalidate(["sam"], wait=True).waited_out == ()


def names(fleet: Fleet, name: str) -> list[str]:
    return [each.name for each in fleet.clients[name].get_fleet().replicas]


def test_a_reload_names_a_replica_that_may_go_on_with_the_policy_of_before(fleet: Fleet) -> None:
    pid = fleet.servers["b"].pid
    freeze(pid)
    try:
        begin = time.monotonic()
        result = fleet.clients["a"].reload(wait=True)
        assert time.monotonic() - begin >= LEASES_TIMEOUT - HEARTBEAT_TIMEOUT
    finally:
        os.kill(pid, signal.SIGCONT)
    assert result.waited_out == ("replica b",)
    (diagnostic,) = result.diagnostics
    assert "replica 'b' has not confirmed the reload" in diagnostic.message
    eventually(partial(fleet.confirms, "a"), True)
