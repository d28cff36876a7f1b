"""The services that the target `wire` asks, the evaluators beside them, and requests as protobuf
splits them.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from queuegate.policy.tree import Policy
from queuegate.policy.yarn_acl import Semantics
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.formats.registry import FormatOptions, load_policy
from queuegate_server.formats.yarn.load import YarnOptions
from queuegate_server.identity.options import ResolverOptions
from queuegate_server.identity.resolvers.local import (
    NoGroupsResolver,
    NoResolver,
    StaticTableResolver,
)
from queuegate_server.rpc.access_service import AccessServicer
from tests.support.generators.policies import Queues, policy_text, random_queues
from tests.support.generators.requests import GROUPS, USERS
from tests.support.generators.yarn import random_cluster
from tests.support.oracles.queue_access import PolicyOracle
from tests.support.oracles.requests import RequestOracle
from tests.support.oracles.yarn_requests import YarnRequestOracle
from tests.support.snapshots import groups_from, servicer, zero

_SEED: Final = 20
_KINDS: Final = {
    "default": ("fair-scheduler", "documented"),
    "fair": ("fair-scheduler", "hadoop"),
    "capacity": ("capacity-scheduler", "documented"),
    "leaf": ("capacity-scheduler", "hadoop"),
}


def _raw_classes() -> Any:
    """Return a function that returns a class by its name: `Items` has `repeated bytes field1`,
    `Stream` `uint64 field1` and `repeated bytes field2`. As such messages protobuf reads batches
    and messages of streams, whatever the items are.
    """
    file = descriptor_pb2.FileDescriptorProto(name="raw.proto", package="raw", syntax="proto3")
    for name, kinds in {"Items": (12,), "Stream": (4, 12)}.items():
        message = file.message_type.add(name=name)
        for number, kind in enumerate(kinds, start=1):
            message.field.add(
                name=f"field{number}", number=number, type=kind, label=3 if kind == 12 else 1
            )
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return lambda name: GetMessageClass(pool.FindMessageTypeByName(f"raw.{name}"))


_RAW: Final = _raw_classes()
ITEMS: Final[Any] = _RAW("Items")
STREAM: Final[Any] = _RAW("Stream")


@dataclass(frozen=True)
class Service:
    """A service, and what it serves."""

    engine: Engine
    snapshot: Snapshot
    access: AccessServicer


def _service(served: dict[str, ServedPartition]) -> Service:
    policy = Policy({name: each.partition for name, each in served.items()}, revision=1)
    engine = Engine(zero)
    return Service(engine, Snapshot(policy, served, 0.0), servicer(engine))


def _yunikorn() -> tuple[Service, RequestOracle, dict[str, Queues]]:
    rng = random.Random(_SEED)
    queues = {name: random_queues(rng, 40, USERS, GROUPS) for name in ("default", "table")}
    text = policy_text({name: ("", each) for name, each in queues.items()})
    loaded = load_policy("yunikorn", text.encode(), "f").partitions
    groups = {
        "default": groups_from(NoResolver(ResolverOptions())),
        "table": groups_from(StaticTableResolver(ResolverOptions())),
    }
    served = {
        name: ServedPartition(partition, groups[name], trust_provided_groups=True)
        for name, partition in loaded.items()
    }
    oracle = RequestOracle(PolicyOracle(queues["default"]), PolicyOracle(queues["table"]))
    return _service(served), oracle, queues


def _yarn() -> tuple[Service, YarnRequestOracle]:
    rng = random.Random(_SEED)
    oracle = YarnRequestOracle({name: random_cluster(rng, *kind) for name, kind in _KINDS.items()})
    served = {}
    for name, found in oracle.clusters.items():
        options = YarnOptions(
            partition=name,
            semantics=Semantics(found.cluster.semantics),
            site=(found.site().encode(), "yarn-site.xml"),
        )
        loaded = load_policy(
            found.format_name, found.xml().encode(), "f", FormatOptions(yarn=options)
        )
        groups = groups_from(NoGroupsResolver(ResolverOptions()))
        served[name] = ServedPartition(loaded.partitions[name], groups, trust_provided_groups=True)
    return _service(served), oracle


YUNIKORN, ORACLE, QUEUES = _yunikorn()
YARN, YARN_ORACLE = _yarn()


def restart() -> None:
    """Forget every answer."""
    for service in (YUNIKORN, YARN):
        service.engine.serve(service.snapshot)
    for oracle in (ORACLE.default, ORACLE.table):
        oracle.forget()
