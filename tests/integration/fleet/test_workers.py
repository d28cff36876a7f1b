"""Each worker of a server is a replica of the fleet: no other mechanism joins the workers."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    cursor_pb2,
    policy_pb2,
    policy_pb2_grpc,
    user_groups_pb2,
    user_groups_pb2_grpc,
)
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.fleet.keys import EPOCH_BYTES
from tests.support.eventually import eventually
from tests.support.servers.admin_port import LISTEN, get_json, ops_address, value
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, each_worker, running_fleet, shown
from tests.support.servers.workers import is_alive, pids, send

WORKERS = 2
NAMES = ("server", "workers/0", "workers/1")
SEVERAL = ("--set", f"workers={WORKERS}", *LISTEN)

pytestmark = pytest.mark.both_transports


class Replicas(NamedTuple):
    """A server with workers beside one without; a connection for each replica."""

    fleet: Fleet
    channels: dict[str, grpc.Channel]

    def agree(self) -> bool:
        return all(
            (each.agreed, [replica.name for replica in each.replicas]) == (True, [*NAMES])
            for each in map(shown, self.channels.values())
        )


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), "server") as fleet:
        workers = fleet.start("workers", *SEVERAL)
        with (
            each_worker(fleet.servers["server"], 1) as one,
            each_worker(workers, WORKERS) as several,
        ):
            replicas = Replicas(fleet, {**one, **several})
            eventually(replicas.agree, True)
            fleet.until_barriers_are_quick()
            yield replicas


@pytest.fixture
def replicas(shared: Replicas) -> Replicas:
    shared.fleet.directory.reset({"sam": dict(STAFF)})
    invalidate(shared.channels["server"])
    return shared


def may(channel: grpc.Channel, cursor: cursor_pb2.Cursor | None = None) -> bool:
    request = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="sam"),
        queue="root.work",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        at_least=cursor,
    )
    stub = access_pb2_grpc.AccessServiceStub(channel)
    allowed: bool = stub.CheckQueueAccess(request, timeout=60, wait_for_ready=True).allowed
    return allowed


def invalidate(
    channel: grpc.Channel, *, wait: bool = True
) -> user_groups_pb2.InvalidateUserGroupsResponse:
    request = user_groups_pb2.InvalidateUserGroupsRequest(wait=wait)
    stub = user_groups_pb2_grpc.UserGroupServiceStub(channel)
    response: user_groups_pb2.InvalidateUserGroupsResponse = stub.InvalidateUserGroups(
        request, timeout=60
    )
    return response


def reload(channel: grpc.Channel) -> policy_pb2.ReloadPolicyResponse:
    request = policy_pb2.ReloadPolicyRequest(wait=True)
    stub = policy_pb2_grpc.PolicyServiceStub(channel)
    response: policy_pb2.ReloadPolicyResponse = stub.ReloadPolicy(request, timeout=60)
    return response


def test_each_worker_shows_all_replicas(replicas: Replicas) -> None:
    for name, channel in replicas.channels.items():
        fleet = shown(channel)
        assert [each.name for each in fleet.replicas] == [*NAMES]
        assert [each.name for each in fleet.replicas if each.self] == [name]
        assert fleet.agreed


def test_the_operations_port_shows_each_worker(replicas: Replicas) -> None:
    ops = ops_address(replicas.fleet.servers["workers"])
    workers = get_json(ops, "/readyz")[1]["workers"]
    assert {index: each["fleet"]["agreed"] for index, each in workers.items()} == {
        "0": True,
        "1": True,
    }
    for index in ("0", "1"):
        assert value(ops, "queuegate_fleet_following", index) == 1
        assert value(ops, "queuegate_fleet_replicas", index, "following") == len(NAMES)


def test_the_directory_is_asked_once(replicas: Replicas) -> None:
    assert all(may(channel) for channel in replicas.channels.values())
    assert replicas.fleet.directory.asked("sam") == 1


@pytest.mark.parametrize("asked", NAMES)
def test_after_an_invalidation_nobody_decides_from_old_groups(
    replicas: Replicas, asked: str
) -> None:
    for _ in range(5):
        for groups, allowed in ((OTHERS, False), (STAFF, True)):
            replicas.fleet.directory.answer({"sam": dict(groups)})
            assert not invalidate(replicas.channels[asked]).waited_out
            assert {may(channel) for channel in replicas.channels.values()} == {allowed}


def test_each_invalidation_is_one_event(replicas: Replicas) -> None:
    """The supervisor does not pass it on as well."""
    for name in NAMES:
        before = invalidate(replicas.channels["server"]).cursor
        after = invalidate(replicas.channels[name]).cursor
        history = slice(EPOCH_BYTES)
        assert after.epoch[history] == before.epoch[history]
        assert after.sequence == before.sequence + 1


def test_a_worker_takes_an_invalidation_of_another_one_into_account(replicas: Replicas) -> None:
    for allowed in (False, True) * 10:
        assert may(replicas.channels["workers/1"]) is not allowed
        replicas.fleet.directory.answer({"sam": dict(STAFF if allowed else OTHERS)})
        cursor = invalidate(replicas.channels["workers/0"], wait=False).cursor
        assert may(replicas.channels["workers/1"], cursor) is allowed


@pytest.mark.parametrize("asked", NAMES)
def test_a_reload_reaches_all(replicas: Replicas, asked: str) -> None:
    policies = [replicas.fleet.policy(name) for name in ("server", "workers")]
    before = policies[0].read_text()
    for text in (before.replace("alice staff", "alice"), before):
        for policy in policies:
            policy.write_text(text)
        response = reload(replicas.channels[asked])
        assert response.succeeded
        assert not response.diagnostics
        assert {may(channel) for channel in replicas.channels.values()} == {text == before}
        eventually(partial(workers_agree, replicas), True)


def workers_agree(replicas: Replicas) -> bool:
    """Return whether the workers of one server have the same revision of the policy."""
    shown_by = shown(replicas.channels["workers/0"]).replicas
    revisions = {each.name: each.policy_revision for each in shown_by}
    return revisions["workers/0"] == revisions["workers/1"]


def test_a_policy_that_is_not_valid_is_loaded_by_no_worker(replicas: Replicas) -> None:
    policy = replicas.fleet.policy("workers")
    before = policy.read_text()
    policy.write_text("partitions: broken")
    try:
        response = reload(replicas.channels["server"])
        assert response.succeeded
        named = " ".join(each.message for each in response.diagnostics)
        assert "'workers/0' cannot load its policy" in named
        assert "'workers/1' cannot load its policy" in named
        assert not reload(replicas.channels["workers/0"]).succeeded
        assert all(may(channel) for channel in replicas.channels.values())
    finally:
        policy.write_text(before)
    assert reload(replicas.channels["workers/1"]).succeeded
    eventually(replicas.agree, True)


def test_without_redis_a_worker_says_how_many_were_reached(replicas: Replicas) -> None:
    fleet = replicas.fleet
    assert all(may(channel) for channel in replicas.channels.values())
    fleet.redis.kill()
    try:
        fleet.directory.answer({"sam": dict(OTHERS)})
        for ask in (invalidate, reload):
            with pytest.raises(grpc.RpcError, match="reached 1 of 3 replicas") as failed:
                ask(replicas.channels["workers/1"])
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
        assert may(replicas.channels["workers/1"]) is False
    finally:
        fleet.redis.start()
    for channel in replicas.channels.values():
        eventually(partial(may, channel), False)
    eventually(replicas.agree, True)


def test_a_worker_that_is_replaced_is_the_same_replica(tmp_path: Path) -> None:
    """Its predecessor is forgotten, by itself as well, when no lease of that is left."""
    with running_fleet(tmp_path, "server") as fleet:
        server = fleet.start("workers", *SEVERAL)
        with each_worker(server, WORKERS) as first:
            eventually(lambda: len(shown(first["workers/0"]).replicas), len(NAMES))
        # A worker may be registered in the fleet before it follows it.
        server.wait_for_log("following the fleet", count=WORKERS)
        killed = pids(server)[1]
        send(killed, signal.SIGKILL)
        eventually(lambda: is_alive(killed), False)
        server.wait_for_log("following the fleet", count=WORKERS + 1)
        with each_worker(server, WORKERS) as again, each_worker(fleet.servers["server"], 1) as one:
            replicas = Replicas(fleet, {**one, **again})
            eventually(replicas.agree, True)
            assert not invalidate(replicas.channels["workers/1"]).waited_out


def test_workers_alone_are_a_fleet(tmp_path: Path) -> None:
    with running_fleet(tmp_path) as fleet:
        server = fleet.start("workers", *SEVERAL)
        fleet.directory.answer({"sam": dict(STAFF)})
        with each_worker(server, WORKERS) as found:
            assert sorted(found) == [*NAMES[1:]]
            for channel in found.values():
                eventually(lambda channel=channel: shown(channel).agreed, True)  # type: ignore[misc]
            assert all(may(channel) for channel in found.values())
            fleet.directory.answer({"sam": dict(OTHERS)})
            invalidate(found["workers/0"])
            assert {may(channel) for channel in found.values()} == {False}
