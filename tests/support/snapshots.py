"""A snapshot with a YuniKorn and a YARN partition, and a servicer for it."""

from queuegate.policy.acl import Acl, parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.policy.yarn_acl import Cluster, Semantics
from queuegate_server.decisions.log import DecisionLog
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.identity.cache import GroupCache
from queuegate_server.identity.group_resolver import GroupResolver
from queuegate_server.identity.guarded_resolver import GuardedResolver
from queuegate_server.identity.options import CacheOptions, ResolverOptions
from queuegate_server.identity.resolver import Resolver
from queuegate_server.identity.resolvers.local import NoResolver
from queuegate_server.rpc.access_service import AccessServicer
from queuegate_server.rpc.call_log import CallLog
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.throttling.byte_budget import ByteBudget


def zero() -> float:
    """Return the time of a clock that stands still."""
    return 0.0


def serving() -> tuple[Engine, AccessServicer]:
    """Return an engine that serves a snapshot, and a servicer on it."""
    engine = Engine(zero)
    engine.serve(two_partitions())
    return engine, servicer(engine)


def servicer(engine: Engine) -> AccessServicer:
    """Return a servicer with an empty response cache."""
    return AccessServicer(
        engine,
        CallLog(DecisionLog(), zero),
        LongCallQueue(zero, 60, {}, ByteBudget(1 << 20)),
        clock=zero,
    )


def groups_named_as_users() -> GroupResolver:
    """Return a resolver that answers immediately."""
    return groups_from(NoResolver(ResolverOptions()))


def groups_from(resolver: Resolver) -> GroupResolver:
    """Return a partition's resolver, on a clock that stands still."""
    shared = GuardedResolver("test", resolver, ResolverOptions())
    return GroupResolver(shared, GroupCache(CacheOptions(), zero, zero))


def asking(resolver: Resolver) -> Snapshot:
    """Return a snapshot whose decisions need groups from a resolver."""
    partition = build_partition("default", "", [QueueAcls("root", parse(" g"), parse(""))])
    served = {"default": ServedPartition(partition, groups_from(resolver), True)}
    return Snapshot(Policy({"default": partition}, revision=1), served, 0.0)


def two_partitions() -> Snapshot:
    """Return the snapshot: `default` and `yarn`."""
    groups = groups_named_as_users()
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
        name: ServedPartition(each, groups, trust_provided_groups=True)
        for name, each in partitions.items()
    }
    return Snapshot(Policy(partitions, revision=1), served, 0.0)
