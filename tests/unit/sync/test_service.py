"""What a stream sends, and when it ends, with the real servicer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.v1 import sync_pb2
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.rpc.errors import Draining
from queuegate_server.rpc.load_shedding import LongCallQueue
from queuegate_server.rpc.sync_service import LOOKUPS, SyncServicer, _Stream
from queuegate_server.sync.hub import SyncHub
from queuegate_server.sync.session import SyncRights
from queuegate_server.throttling.byte_budget import ByteBudget
from tests.support.snapshots import groups_named_as_users, zero
from tests.support.sync_stream import sync_request

RIGHTS = SyncRights(local_decisions=True, assert_groups=True)


def servicer_of(hub: SyncHub, engine: Engine) -> SyncServicer:
    partition = build_partition("default", "", [QueueAcls("root", parse("alice"), parse(""))])
    served = {"default": ServedPartition(partition, groups_named_as_users(), True)}
    engine.serve(Snapshot(Policy({"default": partition}, revision=1), served, 0.0))
    return SyncServicer(
        engine,
        hub,
        LongCallQueue(zero, 1.0, {}, ByteBudget(1)),
        draining=asyncio.Event(),
        clock=zero,
        max_streams=1,
        max_streams_per_caller=1,
        local_decisions=True,
    )


async def test_a_stream_whose_caller_has_lost_its_rights_sends_nothing_more() -> None:
    engine = Engine(zero)
    hub = SyncHub(engine, zero, b"12345678")
    servicer = servicer_of(hub, engine)
    lost, noticed = asyncio.Event(), asyncio.Event()

    async def requests() -> AsyncIterator[bytes]:
        yield sync_request("open").SerializeToString()
        await lost.wait()
        noticed.set()
        raise Draining("the rights of the caller have changed")

    stream = servicer.Sync(requests(), trusted=True)
    first = sync_pb2.SyncResponse.FromString(await anext(stream))
    assert first.HasField("opened")
    lost.set()
    await noticed.wait()
    await asyncio.sleep(0)  # the end of the task that reads
    with pytest.raises(Draining):
        await anext(stream)
    assert hub.streams.total() == 0
    hub.close()


@pytest.mark.parametrize(("users", "at_once"), [(1, 1), (3, 3), (LOOKUPS + 5, LOOKUPS)])
async def test_each_user_is_looked_up_by_one_task(users: int, at_once: int) -> None:
    engine = Engine(zero)
    hub = SyncHub(engine, zero, b"12345678")
    servicer = servicer_of(hub, engine)
    session = await hub.open_session(RIGHTS, "loopback", lambda: None)
    stream = _Stream(servicer, session, lambda: None)
    stream._want([("default", f"user {number}") for number in range(users)])
    assert len(stream._lookups) == at_once
    while stream._lookups:
        await asyncio.wait(stream._lookups)
    assert session.offered == users
    hub.close_session(session)
    hub.close()
