"""The policies that are served, as messages for callers that decide by themselves."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from queuegate.policy.acl import AclNames
from queuegate.policy.decision import RULES
from queuegate.policy.tree import Cluster, Partition
from queuegate.policy.yarn_acl import Semantics
from queuegate.v1 import policy_pb2, sync_pb2
from queuegate_server.engine import ServedPartition, Snapshot
from queuegate_server.runtime.event_loop import PAUSE_SECONDS
from queuegate_server.sync.session import ShippedPolicy

MAX_PART_BYTES: Final = 1024 * 1024
_CHUNK: Final = 500
"""Queues that are converted without a pause."""
_CHUNK_TEXT: Final = 128 * 1024
"""Characters of their ACLs."""


async def ship(snapshot: Snapshot) -> Mapping[str, ShippedPolicy]:
    """Return the policy of each partition as messages; other work can run meanwhile.

    Args:
        snapshot: The snapshot that is served.
    """
    revision = snapshot.policy.revision
    return {name: await _ship(served, revision) for name, served in snapshot.served.items()}


async def _ship(served: ServedPartition, revision: int) -> ShippedPolicy:
    partition = served.partition
    head = sync_pb2.PolicyPart(
        first=True,
        extended_acl_names=partition.acl_names is AclNames.EXTENDED,
        any_acl_names=partition.acl_names is AclNames.ANY,
        use_given_groups=served.trust_provided_groups,
        cluster=_cluster(partition.cluster),
        rules=RULES,
    )
    digest = hashlib.sha256(head.SerializeToString(deterministic=True))
    parts: list[sync_pb2.PolicyPart] = [head]
    size = 0
    async for queues in _chunks(partition):
        chunk = sync_pb2.PolicyPart(queues=queues)
        digest.update(chunk.SerializeToString(deterministic=True))
        if size + chunk.ByteSize() > MAX_PART_BYTES:
            parts.append(sync_pb2.PolicyPart())
            size = 0
        parts[-1].MergeFrom(chunk)
        size += chunk.ByteSize()
    head.revision, head.checksum = revision, digest.digest()
    head.resolver_fingerprint = served.groups.resolver_fingerprint
    parts[-1].last = True
    unchanged = sync_pb2.PolicyPart()
    unchanged.CopyFrom(head)
    unchanged.ClearField("queues")
    unchanged.last = unchanged.unchanged = True
    for part in (*parts, unchanged):
        part.partition = partition.name
    return ShippedPolicy(
        head.checksum,
        revision,
        [sync_pb2.SyncResponse(policy=part) for part in parts],
        sync_pb2.SyncResponse(policy=unchanged),
        head.resolver_fingerprint,
    )


async def _chunks(partition: Partition) -> AsyncIterator[list[policy_pb2.PolicyQueue]]:
    creators = partition.creation.creators if partition.creation else ()
    chunk: list[policy_pb2.PolicyQueue] = []
    size = 0
    for queue in [*partition.queues.values()]:
        submit, admin = queue.acl_texts
        chunk.append(
            policy_pb2.PolicyQueue(
                path=queue.path,
                submit_acl=submit,
                admin_acl=admin,
                creates_queues=queue.path in creators,
            )
        )
        size += len(submit) + len(admin)
        if len(chunk) == _CHUNK or size > _CHUNK_TEXT:
            yield chunk
            chunk, size = [], 0
            await asyncio.sleep(PAUSE_SECONDS)
    yield chunk


def _cluster(cluster: Cluster | None) -> sync_pb2.ClusterPolicy | None:
    if cluster is None:
        return None
    return sync_pb2.ClusterPolicy(
        admin_acl=cluster.admins.text,
        admin_users=sorted(cluster.admins.users),
        acls_enabled=cluster.acls_enabled,
        checks_submission_always=cluster.checks_submission_always,
        has_short_names=cluster.has_short_names,
        hadoop_semantics=cluster.semantics is Semantics.HADOOP,
    )
