"""A replaced policy is freed at once, even if no more calls come."""

import itertools
import weakref

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.v1 import access_pb2, user_group_information_pb2
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.rpc import load_shedding
from queuegate_server.rpc.load_shedding import Slot
from tests.support.snapshots import groups_named_as_users, servicer, zero

BATCH = 250


def snapshot(revision: int) -> Snapshot:
    groups = groups_named_as_users()
    partition = build_partition("default", "", [QueueAcls("root", parse(" alice"), parse(""))])
    served = {"default": ServedPartition(partition, groups, trust_provided_groups=True)}
    return Snapshot(Policy({"default": partition}, revision=revision), served, 0.0)


def question(user: str) -> access_pb2.CheckQueueAccessRequest:
    return access_pb2.CheckQueueAccessRequest(
        user=user_group_information_pb2.UserGroupInformation(user=user),
        queue="root.a",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )


def batch() -> bytes:
    questions = (question(f"user{number}") for number in range(BATCH))
    return access_pb2.BatchCheckQueueAccessRequest(checks=questions).SerializeToString()


def columns() -> bytes:
    return access_pb2.CheckQueueAccessColumnsRequest(
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        users=[question("alice").user],
        queues=["root.a"],
        user_indexes=[0],
        queue_indexes=[0],
    ).SerializeToString()


@pytest.mark.parametrize("trusted", [False, True])
async def test_nothing_keeps_a_policy_that_was_replaced(trusted: bool) -> None:
    engine = Engine(zero)
    access = servicer(engine)
    engine.serve(snapshot(1))
    await access.CheckQueueAccess(question("alice").SerializeToString(), trusted=trusted)
    await access.BatchCheckQueueAccess(batch(), trusted=trusted)
    await access.CheckQueueAccessColumns(columns(), trusted=trusted)
    gone = weakref.ref(engine.snapshot.policy)
    engine.serve(snapshot(2))
    assert gone() is None


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_batch_under_way_keeps_it_for_as_long(
    trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(zero)
    access = servicer(engine)
    engine.serve(snapshot(1))
    gone = weakref.ref(engine.snapshot.policy)

    pauses = itertools.count()

    async def replaced(_slot: Slot) -> None:
        if next(pauses) == 0:  # the batch has no snapshot yet
            return
        if engine.snapshot.policy.revision == 1:
            engine.serve(snapshot(2))
        assert gone() is not None

    monkeypatch.setattr(load_shedding, "CALL_STEP_SECONDS", 0.0)
    monkeypatch.setattr(Slot, "pause", replaced)
    answer = access_pb2.BatchCheckQueueAccessResponse.FromString(
        await access.BatchCheckQueueAccess(batch(), trusted=trusted)
    )
    assert {each.decision.policy_revision for each in answer.results} == {1}
    assert gone() is None
