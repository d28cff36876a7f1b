"""A large policy that is no longer served is freed when nobody uses it, bit by bit."""

import asyncio
import gc
import weakref

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate_server.policystore.letting_go import let_go
from queuegate_server.snapshot import Served, Snapshot


def snapshot(queues: int) -> Snapshot:
    acls = [
        QueueAcls("root", parse(""), parse("")),
        *(QueueAcls(f"root.q{number}", parse(f"u{number}"), parse("")) for number in range(queues)),
    ]
    partition = build_partition("default", "", acls)
    served: dict[str, Served] = {}
    return Snapshot(Policy({"default": partition}), served, 0.0)


async def test_a_large_one_is_kept_while_it_is_used() -> None:
    used = snapshot(6_000)
    gone = weakref.ref(used)
    task = let_go(used)
    assert task is not None
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    queue = used.policy.partitions["default"].nearest("root.q5999")
    assert queue.path == "root.q5999"
    del used
    gc.collect()
    assert gone() is None
    await asyncio.wait_for(task, 30)


async def test_a_small_one_needs_no_care() -> None:
    assert let_go(snapshot(10)) is None
