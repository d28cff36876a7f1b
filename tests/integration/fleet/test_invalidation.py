"""Three replicas, one Redis: what one forgets, all forget."""

from collections.abc import Iterator

import grpc
import pytest

import queuegate
from queuegate.v1 import (
    access_pb2,
    access_pb2_grpc,
    cursor_pb2,
    user_group_information_pb2,
)
from tests.support.eventually import eventually
from tests.support.servers.fleet import OTHERS, STAFF, Fleet, running_fleet

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), *NAMES) as running:
        running.until_barriers_are_quick()
        yield running


@pytest.fixture
def fleet(shared: Fleet) -> Fleet:
    shared.directory.reset({"sam": dict(STAFF), "eve": dict(STAFF)})
    shared.clients["a"].invalidate(wait=True)
    return shared


def test_all_replicas_forget(fleet: Fleet) -> None:
    assert all(fleet.may(name) for name in NAMES)
    assert fleet.may("b", "eve")
    fleet.directory.answer({"sam": dict(OTHERS), "eve": dict(OTHERS)})
    fleet.clients["a"].invalidate(["sam"])
    for name in NAMES:
        eventually(lambda name=name: fleet.may(name), False)  # type: ignore[misc]
    assert fleet.may("b", "eve"), "only the user who was named"


def test_after_the_barrier_no_replica_decides_from_old_groups(fleet: Fleet) -> None:
    for number in range(20):
        before, after = (STAFF, OTHERS) if number % 2 == 0 else (OTHERS, STAFF)
        assert {fleet.may(name) for name in NAMES} == {before is STAFF}
        fleet.directory.answer({"sam": dict(after)})
        result = fleet.clients[NAMES[number % 3]].invalidate(["sam"], wait=True)
        assert result.waited_out == ()
        assert {fleet.may(name) for name in NAMES} == {after is STAFF}


def test_an_answer_takes_a_change_of_another_replica_into_account(fleet: Fleet) -> None:
    for number in range(20):
        after = OTHERS if number % 2 == 0 else STAFF
        assert fleet.may("b") is not (after is STAFF)
        fleet.directory.answer({"sam": dict(after)})
        cursor = fleet.clients["a"].invalidate(["sam"]).cursor
        client = fleet.clients["b"]
        assert client.check("sam", "root.work", at_least=cursor).allowed is (after is STAFF)


def test_an_unknown_change_is_refused(fleet: Fleet) -> None:
    cursor = fleet.clients["a"].invalidate(["sam"]).cursor
    assert cursor is not None
    for unknown in (
        queuegate.Cursor(cursor.epoch, cursor.sequence + 1),
        queuegate.Cursor(cursor.epoch[:-1] + b"?", cursor.sequence),
        queuegate.Cursor(b"another epoch 16", 1),
    ):
        with pytest.raises(queuegate.ServerUnavailable, match="at_least"):
            fleet.clients["b"].check("sam", "root.work", at_least=unknown)


def test_a_batch_waits_for_a_change_of_another_replica(fleet: Fleet) -> None:
    address = fleet.servers["b"].address
    with grpc.insecure_channel(address) as channel:
        stub = access_pb2_grpc.AccessServiceStub(channel)
        for number in range(20):
            after = OTHERS if number % 2 == 0 else STAFF
            assert fleet.may("b") is not (after is STAFF)
            fleet.directory.answer({"sam": dict(after)})
            cursor = fleet.clients["a"].invalidate(["sam"]).cursor
            assert cursor is not None
            check = access_pb2.CheckQueueAccessRequest(
                user=user_group_information_pb2.UserGroupInformation(user="sam"),
                queue="root.work",
                access=access_pb2.ACCESS_TYPE_SUBMIT,
                at_least=cursor_pb2.Cursor(epoch=cursor.epoch, sequence=cursor.sequence),
            )
            request = access_pb2.BatchCheckQueueAccessRequest(checks=[check, check])
            results = stub.BatchCheckQueueAccess(request).results
            assert [each.decision.allowed for each in results] == [after is STAFF] * 2
