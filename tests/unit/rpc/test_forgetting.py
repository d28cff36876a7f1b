"""A policy that is no longer served is let go of at once, also if nobody asks any more."""

import weakref

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.tree import Policy, QueueAcls, build_partition
from queuegate.v1 import access_pb2, user_group_information_pb2
from queuegate_server.engine import Engine
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolvers.none import NoResolver
from queuegate_server.ignoring_groups import IgnoringGroups
from queuegate_server.rpc.admission_queue import AdmissionQueue, Slot
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.snapshot import Served, Snapshot

BATCH = 250


def now() -> float:
    return 0.0


def snapshot(revision: int) -> Snapshot:
    shared = GuardedResolver("none", NoResolver(ResolverOptions()), ResolverOptions())
    groups = GroupResolver(shared, GroupCache(CacheOptions(), now, now))
    partition = build_partition("default", "", [QueueAcls("root", parse(" alice"), parse(""))])
    served = {"default": Served(partition, groups, trust_provided_groups=True)}
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


def engines() -> tuple[Engine, list[Checks]]:
    """Return an engine, and the hot paths of callers whose groups are believed or not."""
    engine = Engine(now)
    both = (engine, IgnoringGroups(engine, now))
    return engine, [
        Checks(each, now, DecisionLog(wall=now), AdmissionQueue(now, 60, {})) for each in both
    ]


async def test_nothing_keeps_a_policy_that_was_replaced() -> None:
    engine, both = engines()
    engine.serve(snapshot(1))
    for checks in both:
        await checks.answer(question("alice").SerializeToString())
        await checks.answer_batch(batch())
        await checks.columns.answer(columns())
    gone = weakref.ref(engine.snapshot.policy)
    engine.serve(snapshot(2))
    assert gone() is None


@pytest.mark.parametrize("which", [0, 1])
async def test_a_batch_under_way_keeps_it_for_as_long(
    which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, both = engines()
    engine.serve(snapshot(1))
    gone = weakref.ref(engine.snapshot.policy)

    async def replaced(_turn: Slot) -> None:
        if engine.snapshot.policy.revision == 1:
            engine.serve(snapshot(2))
        assert gone() is not None

    monkeypatch.setattr(Slot, "pause", replaced)
    answer = access_pb2.BatchCheckQueueAccessResponse.FromString(
        await both[which].answer_batch(batch())
    )
    assert {each.decision.policy_revision for each in answer.results} == {1}
    assert gone() is None
