"""The policies that are served, as messages for callers that decide in their own process."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Final

from queuegate.policy.decision import RULES
from queuegate.v1 import sync_pb2
from queuegate_server.engine import ServedPartition, Snapshot
from queuegate_server.runtime.event_loop import PAUSE_SECONDS
from queuegate_server.sync.compiler import ChainCompiler, queue_naming
from queuegate_server.sync.session import ShippedPolicy

MAX_PART_BYTES: Final = 256 * 1024


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
        naming=queue_naming(partition),
        use_given_groups=served.trust_provided_groups,
        rules=RULES,
    )
    digest = hashlib.sha256(head.SerializeToString(deterministic=True))
    parts: list[sync_pb2.PolicyPart] = [head]
    size = 0
    for rows in ChainCompiler(partition).steps():
        data = rows.SerializeToString(deterministic=True)
        digest.update(data)
        if size + len(data) > MAX_PART_BYTES:
            parts.append(sync_pb2.PolicyPart())
            size = 0
        parts[-1].MergeFrom(rows)
        size += len(data)
        await asyncio.sleep(PAUSE_SECONDS)
    head.revision, head.checksum = revision, digest.digest()
    head.resolver_fingerprint = served.groups.resolver_fingerprint
    parts[-1].last = True
    unchanged = sync_pb2.PolicyPart(
        first=True,
        last=True,
        unchanged=True,
        naming=head.naming,
        use_given_groups=head.use_given_groups,
        rules=RULES,
        revision=revision,
        checksum=head.checksum,
        resolver_fingerprint=head.resolver_fingerprint,
    )
    for part in (*parts, unchanged):
        part.partition = partition.name
    return ShippedPolicy(
        head.checksum,
        revision,
        [sync_pb2.SyncResponse(policy=part) for part in parts],
        sync_pb2.SyncResponse(policy=unchanged),
        head.resolver_fingerprint,
    )
