"""Questions taken in halves mean what they mean as a whole, or are left alone."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.policy.acl import Acl, parse
from queuegate.policy.tree import Cluster, Policy, QueueAcls, build_partition
from queuegate.policy.yarn_acl import Semantics
from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Engine
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver, GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolvers.none import NoResolver
from queuegate_server.rpc import convert, wire
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.checks import Checks
from queuegate_server.rpc.decision_log import DecisionLog
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.halves import Halves
from queuegate_server.rpc.response_cache import ResponseCache
from queuegate_server.snapshot import Served, Snapshot, UnknownPartition

NAMES = st.sampled_from(["alice", "a" * 65, "x" * 300, "", "böb", "a b", "a\nb", "\u2028", "*"])
GROUPS = st.lists(st.sampled_from(["dev", "ops", "", "g\x00", "y" * 300, "gré"]), max_size=3)
QUEUES = st.sampled_from(
    ["root", "ROOT.a", "root.a.b.c", "a", "b", "new", "", "root..a", "root.@recovery@", "a\nb", "ä"]
)
ACCESSES = access_pb2.AccessType.values()
PARTITIONS = st.sampled_from(["", "default", "[rm]default", "yarn", "[rm]yarn", "gpu", "\x00"])
REAL_USERS = st.sampled_from(["", "", "", "hive", "oozie", "x" * 300, "a\nb"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    parts = [
        access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=draw(NAMES), groups=draw(GROUPS))
        ),
        access_pb2.CheckQueueAccessRequest(
            queue=draw(QUEUES),
            partition=draw(PARTITIONS),
            access=draw(st.sampled_from(ACCESSES)),
            real_user=draw(REAL_USERS),
        ),
    ]
    if draw(st.booleans()):
        parts.append(parts[0])
    if draw(st.booleans()):
        parts.reverse()
    data = b"".join(part.SerializeToString() for part in parts)
    return data[: draw(st.sampled_from([len(data), len(data), 1, 5]))]


def a_snapshot() -> tuple[Engine, Snapshot]:
    engine = Engine(lambda: 0.0)
    shared = GuardedResolver("none", NoResolver(ResolverOptions()), ResolverOptions())
    groups = GroupResolver(shared, GroupCache(CacheOptions(), lambda: 0.0, lambda: 0.0))
    queues = [
        QueueAcls("root", parse("alice dev"), parse("")),
        QueueAcls("root.a", *[parse("*")] * 2),
    ]
    partition = build_partition("default", "", queues)
    proxied = Acl("~hive", proxies=frozenset({"hive"}))
    cluster = Cluster(Semantics.HADOOP, parse("boss"), has_short_names=True)
    hadoop = [
        *queues,
        QueueAcls("root.b", proxied, parse("")),
        QueueAcls("root.a.b", parse("bob"), parse("")),
        QueueAcls("root.a.c", proxied, parse("")),
    ]
    partitions = {"default": partition, "yarn": build_partition("yarn", "", hadoop, cluster)}
    served = {
        name: Served(each, groups, trust_provided_groups=True) for name, each in partitions.items()
    }
    return engine, Snapshot(Policy(partitions, revision=1), served, 0.0)


@settings(max_examples=300)
@given(asked=st.lists(requests(), min_size=1, max_size=4))
def test_halves_answer_as_the_whole_does(asked: list[bytes]) -> None:
    """The same bytes, or the same error, alone and in a batch, first and when kept."""

    async def compare() -> None:
        engine, snapshot = a_snapshot()
        engine.serve(snapshot)
        checks = Checks(
            engine, lambda: 0.0, DecisionLog(wall=lambda: 0.0), AdmissionQueue(lambda: 0.0, 60, {})
        )
        for data in [*asked, *asked]:
            # Without the memo, which would answer what was asked before.
            checks._memo = ResponseCache()
            expected = await _whole(engine, snapshot, data)
            try:
                found: bytes | tuple[type, str] = await checks.answer(data)
            except (InvalidRequest, UnknownPartition) as error:
                found = type(error), str(error)
            assert found == expected
            checks._memo = ResponseCache()
            batch = access_pb2.BatchCheckQueueAccessResponse.FromString(
                await checks.answer_batch(wire.embedded(1, data))
            )
            (result,) = batch.results
            if isinstance(expected, bytes):
                assert result.decision.SerializeToString() == expected
            else:
                assert result.HasField("error")

    asyncio.run(compare())


async def _whole(engine: Engine, snapshot: Snapshot, data: bytes) -> bytes | tuple[type, str]:
    """Answer without halves."""
    try:
        message = wire.parse(access_pb2.CheckQueueAccessRequest, data)
        verdict = await engine.check(snapshot, convert.question(message, snapshot))
    except (InvalidRequest, UnknownPartition) as error:
        return type(error), str(error)
    return convert.decision_message(verdict.decision, 1).SerializeToString()


def test_usual_questions_are_taken() -> None:
    _, snapshot = a_snapshot()
    asked = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice", groups=["dev"]),
        queue="root.A.new",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    assert Halves().of(asked.SerializeToString(), snapshot) is not None
    asked.partition, asked.user.user = "yarn", "a b"
    assert Halves().of(asked.SerializeToString(), snapshot) is not None


def test_names_of_yarn_are_no_names_of_yunikorn() -> None:
    _, snapshot = a_snapshot()
    halves = Halves()
    for partition, is_taken in (("yarn", True), ("default", False), ("yarn", True)):
        asked = access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user="a b", groups=["dev"]),
            partition=partition,
            queue="root.a",
            access=access_pb2.ACCESS_TYPE_SUBMIT,
        )
        found = halves.of(asked.SerializeToString(), snapshot)
        assert (found is not None) is is_taken


def test_users_are_kept_when_they_come_again() -> None:
    _, snapshot = a_snapshot()
    halves = Halves()
    asked = [
        access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=user, groups=["dev"]),
            queue="root.a",
            access=access_pb2.ACCESS_TYPE_SUBMIT,
        ).SerializeToString()
        for user in ("alice", "bob", "alice")
    ]
    found = [halves.of(data, snapshot) for data in asked]
    assert found[0] == found[2] != found[1]
    assert list(halves._who[False].values()) == [("alice", ("dev",))]
    assert halves.of(asked[0], snapshot) == found[0]
