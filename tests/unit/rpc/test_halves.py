"""Questions taken in halves mean what they mean as a whole, or are left alone."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from queuegate.v1 import access_pb2
from queuegate.v1.user_group_information_pb2 import UserGroupInformation
from queuegate_server.engine import Engine, Served, Snapshot
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolvers.none import NoResolver
from queuegate_server.identity.stack import SharedResolver, UserGroups
from queuegate_server.policy.acl import parse
from queuegate_server.policy.tree import Policy, QueueAcls, build_partition
from queuegate_server.rpc import convert
from queuegate_server.rpc.errors import InvalidRequest
from queuegate_server.rpc.halves import Halves

NAMES = st.sampled_from(["alice", "a" * 65, "x" * 300, "", "böb", "a b", "a\nb", "\u2028", "*"])
GROUPS = st.lists(st.sampled_from(["dev", "ops", "", "g\x00", "y" * 300, "gré"]), max_size=3)
QUEUES = st.sampled_from(["root", "ROOT.a", "root.a.b.c", "a", "", "root..a", "root.@recovery@"])
ACCESSES = access_pb2.AccessType.values()
PARTITIONS = st.sampled_from(["", "default", "[rm]default", "gpu", "\x00"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    parts = [
        access_pb2.CheckQueueAccessRequest(
            user=UserGroupInformation(user=draw(NAMES), groups=draw(GROUPS))
        ),
        access_pb2.CheckQueueAccessRequest(
            queue=draw(QUEUES), partition=draw(PARTITIONS), access=draw(st.sampled_from(ACCESSES))
        ),
    ]
    if draw(st.booleans()):
        parts.append(parts[0])
    if draw(st.booleans()):
        parts.reverse()
    data = b"".join(part.SerializeToString() for part in parts)
    return data[: draw(st.sampled_from([len(data), len(data), 1, 5]))]


def a_snapshot() -> tuple[Engine, Snapshot]:
    engine = Engine(lambda: 0.0, lambda: 0.0)
    shared = SharedResolver("none", NoResolver(ResolverOptions()), ResolverOptions())
    groups = UserGroups(shared, GroupCache(CacheOptions(), lambda: 0.0, lambda: 0.0))
    queues = [
        QueueAcls("root", parse("alice dev"), parse("")),
        QueueAcls("root.a", *[parse("*")] * 2),
    ]
    partition = build_partition("default", "", queues)
    served = {"default": Served(partition, groups, trust_provided_groups=True)}
    return engine, Snapshot(Policy({"default": partition}, revision=1), served, 0.0)


@settings(max_examples=300)
@given(asked=st.lists(requests(), min_size=1, max_size=4))
def test_halves_mean_what_the_whole_means(asked: list[bytes]) -> None:
    async def compare() -> None:
        engine, snapshot = a_snapshot()
        halves = Halves()
        for data in [*asked, *asked]:
            found = halves.of(data, snapshot)
            if found is None:
                continue
            (user, groups), (served, chain) = found
            message = access_pb2.CheckQueueAccessRequest.FromString(data)
            try:
                question = convert.question(message, snapshot)
            except InvalidRequest as error:
                raise AssertionError(f"{data!r} was taken: {error}") from error
            verdict = engine.check_known(served, chain, user, groups)
            beside = await engine.check(snapshot, question)
            assert verdict is not None
            assert verdict.decision == beside.decision

    asyncio.run(compare())


def test_usual_questions_are_taken() -> None:
    _, snapshot = a_snapshot()
    asked = access_pb2.CheckQueueAccessRequest(
        user=UserGroupInformation(user="alice", groups=["dev"]),
        queue="root.A.new",
        access=access_pb2.ACCESS_TYPE_SUBMIT,
    )
    assert Halves().of(asked.SerializeToString(), snapshot) is not None
