"""What a stream sends, and until when, over the real servicer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queuegate.policy.acl import parse
from queuegate.policy.queue import QueueAcls
from queuegate.policy.tree import Policy, build_partition
from queuegate.v1 import sync_pb2
from queuegate_server.engine import Engine, ServedPartition, Snapshot
from queuegate_server.rpc.admission_queue import AdmissionQueue
from queuegate_server.rpc.errors import Draining
from queuegate_server.rpc.sync_service import SyncServicer
from queuegate_server.sync.hub import SyncHub
from queuegate_server.throttling import ByteBudget
from tests.support.snapshots import groups_named_as_users, zero
from tests.support.sync_stream import sync_request


async def test_a_stream_whose_caller_has_lost_its_rights_sends_nothing_more() -> None:
    engine = Engine(zero)
    partition = build_partition("default", "", [QueueAcls("root", parse("alice"), parse(""))])
    served = {"default": ServedPartition(partition, groups_named_as_users(), True)}
    engine.serve(Snapshot(Policy({"default": partition}, revision=1), served, 0.0))
    hub = SyncHub(engine, zero, b"12345678")
    servicer = SyncServicer(
        engine,
        hub,
        AdmissionQueue(zero, 1.0, {}, ByteBudget(1)),
        None,
        draining=asyncio.Event(),
        clock=zero,
        max_streams=1,
        max_streams_per_caller=1,
        local_decisions=True,
    )
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
    assert hub.streams == 0
    hub.close()
