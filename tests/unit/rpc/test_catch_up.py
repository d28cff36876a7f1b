"""Checks that demand a change which this server has yet to carry out."""

from collections.abc import Collection

import pytest

from queuegate.policy.tree import Policy
from queuegate.v1 import access_pb2, cursor_pb2, user_group_information_pb2
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine, Snapshot
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.errors import NotCaughtUp
from queuegate_server.rpc.freshness import ChangePredicate, ChangeWaiter, Freshness
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.wire import MAX_SHORT_REQUEST
from queuegate_server.throttling.byte_budget import ByteBudget
from tests.support.snapshots import two_partitions, zero

EPOCH = b"e" * 16


class Replica:
    """A server that learns of changes while it is waited for them."""

    def __init__(self, learns_up_to: int) -> None:
        self.applied = 0
        self.learns_up_to = learns_up_to
        self.waits: list[set[int]] = []

    def has_seen(self, _epoch: bytes, sequence: int) -> bool:
        return sequence <= self.applied

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        self.waits.append({sequence for _, sequence in changes})
        self.applied = self.learns_up_to


def servicer(has_seen: ChangePredicate, catch_up: ChangeWaiter | None) -> AccessServicer:
    engine = Engine(zero)
    engine.serve(two_partitions())
    return servicer_of(engine, has_seen, catch_up)


def servicer_of(
    engine: Engine, has_seen: ChangePredicate, catch_up: ChangeWaiter | None
) -> AccessServicer:
    return AccessServicer(
        engine,
        CallLog(DecisionLog(), zero),
        LongCallQueue(zero, 60, {}, ByteBudget(1 << 20)),
        clock=zero,
        freshness=Freshness(has_seen, catch_up),
    )


def question(demanded: int, groups: int = 0) -> access_pb2.CheckQueueAccessRequest:
    """Return a check that demands a change; 0: none."""
    return access_pb2.CheckQueueAccessRequest(
        user=user_group_information_pb2.UserGroupInformation(
            user="alice", groups=[f"g{number:07}" for number in range(groups)]
        ),
        queue="root.a",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
        at_least=cursor_pb2.Cursor(epoch=EPOCH, sequence=demanded) if demanded else None,
    )


def batch(*demanded: int) -> bytes:
    """Return a batch about one user, whose checks demand these changes; 0: none."""
    checks = [question(sequence) for sequence in demanded]
    return access_pb2.BatchCheckQueueAccessRequest(checks=checks).SerializeToString()


async def outcomes(access: AccessServicer, *demanded: int) -> list[str | None]:
    data = await access.BatchCheckQueueAccess(batch(*demanded), trusted=False)
    results = access_pb2.BatchCheckQueueAccessResponse.FromString(data).results
    return [each.WhichOneof("outcome") for each in results]


async def test_a_batch_waits_once_for_all_its_changes() -> None:
    replica = Replica(learns_up_to=3)
    access = servicer(replica.has_seen, replica.catch_up)
    assert await outcomes(access, 1, 0, 3, 1) == ["decision"] * 4
    assert replica.waits == [{1, 3}]


async def test_checks_that_demand_a_change_which_does_not_come_fail_alone() -> None:
    replica = Replica(learns_up_to=1)
    access = servicer(replica.has_seen, replica.catch_up)
    assert await outcomes(access, 0, 2, 1) == ["decision", "error", "decision"]
    assert replica.waits == [{1, 2}]


async def test_a_batch_that_demands_nothing_new_does_not_wait() -> None:
    replica = Replica(learns_up_to=1)
    replica.applied = 1
    access = servicer(replica.has_seen, replica.catch_up)
    assert await outcomes(access, 0, 1) == ["decision", "decision"]
    assert replica.waits == []


async def test_without_a_fleet_nothing_is_awaited() -> None:
    access = servicer(Replica(learns_up_to=1).has_seen, None)
    assert await outcomes(access, 1, 0) == ["error", "decision"]


class ReloadingReplica(Replica):
    """A server that reads another policy when it learns of the changes."""

    def __init__(self) -> None:
        super().__init__(learns_up_to=1)
        self.engine = Engine(zero)
        self._older = two_partitions()
        self.engine.serve(self._older)

    async def catch_up(self, changes: Collection[tuple[bytes, int]]) -> None:
        await super().catch_up(changes)
        policy = Policy(self._older.policy.partitions, revision=2)
        self.engine.serve(Snapshot(policy, self._older.served, 0.0))


@pytest.mark.parametrize("groups", [0, 2_000], ids=["short", "in its turn"])
async def test_a_check_that_waited_is_decided_by_the_policy_it_waited_for(groups: int) -> None:
    replica = ReloadingReplica()
    access = servicer_of(replica.engine, replica.has_seen, replica.catch_up)
    data = question(1, groups).SerializeToString()
    assert (len(data) > MAX_SHORT_REQUEST) is bool(groups)
    response = await access.CheckQueueAccess(data, trusted=True)
    assert access_pb2.CheckQueueAccessResponse.FromString(response).policy_revision == 2
    assert replica.waits == [{1}]


async def test_a_batch_that_waited_is_decided_by_one_policy() -> None:
    replica = ReloadingReplica()
    access = servicer_of(replica.engine, replica.has_seen, replica.catch_up)
    data = await access.BatchCheckQueueAccess(batch(0, 1, 0), trusted=False)
    results = access_pb2.BatchCheckQueueAccessResponse.FromString(data).results
    assert [each.decision.policy_revision for each in results] == [2, 2, 2]
    assert replica.waits == [{1}]


async def test_a_check_that_waits_in_vain_fails() -> None:
    access = servicer(Replica(learns_up_to=0).has_seen, Replica(learns_up_to=0).catch_up)
    with pytest.raises(NotCaughtUp):
        await access.CheckQueueAccess(question(1).SerializeToString(), trusted=True)


async def test_freshness_comes_before_validation() -> None:
    """A check that names a partition of the policy which it waits for is not refused."""
    access = servicer(Replica(learns_up_to=0).has_seen, None)
    unknown = question(1)
    unknown.partition = "of-the-next-policy"
    with pytest.raises(NotCaughtUp):
        await access.CheckQueueAccess(unknown.SerializeToString(), trusted=True)
