"""Checks that demand a change which this server has yet to carry out."""

from collections.abc import Callable, Collection

from queuegate.v1 import access_pb2, cursor_pb2, user_group_information_pb2
from queuegate_server.engine import Engine
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.batch import CatchUp
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.interceptors import ConcurrencyLimiter
from queuegate_server.throttling import ByteBudget
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


def servicer(has_seen: Callable[[bytes, int], bool], catch_up: CatchUp | None) -> AccessServicer:
    engine = Engine(zero)
    engine.serve(two_partitions())
    return AccessServicer(
        engine,
        DecisionLog(wall=zero),
        AdmissionQueue(zero, 60, {}, ByteBudget(1 << 20)),
        ConcurrencyLimiter(1_000),
        clock=zero,
        has_seen=has_seen,
        catch_up=catch_up,
    )


def batch(*demanded: int) -> bytes:
    """Return a batch about one user, whose checks demand these changes; 0: none."""
    checks = [
        access_pb2.CheckQueueAccessRequest(
            user=user_group_information_pb2.UserGroupInformation(user="alice"),
            queue="root.a",
            access=access_pb2.ACCESS_TYPE_SUBMIT,
            at_least=cursor_pb2.Cursor(epoch=EPOCH, sequence=sequence) if sequence else None,
        )
        for sequence in demanded
    ]
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
