"""Policies in the form that gates receive."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queuegate.gate import checks
from queuegate.gate.local_partition import LocalPartition
from queuegate.gate.policy_tables import PolicyTables
from queuegate.gate.replica import LocalReplica
from queuegate.policy.acl import parse
from queuegate.policy.decision import RULES
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Partition, build_partition
from queuegate.v1 import sync_pb2
from queuegate_server.sync.compiler import ChainCompiler, queue_naming

TEAM: Final = {"root": ("", ""), "root.team": ("alice staff", "")}


def compiled(partition: Partition, **fields: Any) -> sync_pb2.PolicyPart:
    """Return the policy of a partition as one part.

    Args:
        partition: The partition.
        fields: Other fields of the part.
    """
    settings = {
        "partition": partition.name,
        "first": True,
        "last": True,
        "rules": RULES,
        "naming": queue_naming(partition),
        "revision": 1,
        "checksum": b"1",
        **fields,
    }
    part = sync_pb2.PolicyPart(**settings)
    for rows in ChainCompiler(partition).steps():
        part.MergeFrom(rows)
    return part


def yunikorn_part(
    queues: Mapping[str, tuple[str, str]] = TEAM, name: str = "default", **fields: Any
) -> sync_pb2.PolicyPart:
    """Return a policy of YuniKorn as one part.

    Args:
        queues: The ACLs for submission and administration by path, each queue after its parent.
        name: The name of the partition.
        fields: Other fields of the part.
    """
    acls = [
        QueueAcls(path, parse(submit), parse(admin)) for path, (submit, admin) in queues.items()
    ]
    return compiled(build_partition(name, "", acls), **fields)


def received(parts: Iterable[sync_pb2.PolicyPart]) -> LocalPartition:
    """Return what a gate makes of all parts of the policy of the partition `default`.

    Raises:
        ValueError: The gate refuses a part.
    """
    replica = LocalReplica(is_complete=True)
    for part in parts:
        checks.check(sync_pb2.SyncResponse(policy=part))
        replica.add_part(part)
    partition = replica.state.policies["default"].partition
    assert partition
    return partition


def local_partition(
    partition: Partition, compiler: type[ChainCompiler] = ChainCompiler
) -> LocalPartition:
    """Return a gate's view of a partition after sending it over the wire in many parts."""
    tables = PolicyTables()
    for rows in compiler(partition).steps():
        tables.add(sync_pb2.PolicyPart.FromString(rows.SerializeToString()))
    tables.finish()
    return LocalPartition(partition.name, queue_naming(partition), tables, 0)
