"""Frees what a large policy consists of a little at a time.

The millions of objects of one would be freed at once by whoever lets go of the last reference
to it, and nothing else would run meanwhile.
"""

import asyncio
import weakref
from typing import Final

from queuegate.policy.queue import Queue
from queuegate.policy.tree import Policy
from queuegate_server.snapshot import Snapshot

_LARGE: Final = 5_000
"""Queues; fewer are freed in no time."""
_AT_ONCE: Final = 200


def let_go(snapshot: Snapshot) -> asyncio.Task[None] | None:
    """Begin to free a snapshot that is no longer served, as soon as no call uses it; None if
    it is small. Needs the running loop.
    """
    partitions = snapshot.policy.partitions.values()
    if sum(len(partition.queues) for partition in partitions) < _LARGE:
        return None
    queues = [queue for partition in partitions for queue in partition.queues.values()]
    unused = asyncio.Event()
    # Of the policy, which snapshots made of this one have, too.
    reference = weakref.ref(snapshot.policy, lambda _: unused.set())
    return asyncio.create_task(_free(queues, unused, reference))


async def _free(
    queues: list[Queue], unused: asyncio.Event, _reference: weakref.ref[Policy]
) -> None:
    await unused.wait()
    while queues:
        del queues[-_AT_ONCE:]
        await asyncio.sleep(0)
