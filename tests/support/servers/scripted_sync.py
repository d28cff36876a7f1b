"""A server with only SyncService, whose streams are scripted by a test."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from queuegate.gate.bounds import MAX_LEASE_SECONDS
from queuegate.v1 import sync_pb2
from queuegate.v1.sync_pb2_grpc import SyncServiceServicer, add_SyncServiceServicer_to_server
from tests.support.compiled_policies import yunikorn_part

Requests = Iterator[sync_pb2.SyncRequest]
Responses = Iterator[sync_pb2.SyncResponse]
Script = Callable[[Requests, grpc.ServicerContext], Responses]


def opened(**fields: Any) -> sync_pb2.SyncResponse:
    """Return a greeting that lets a gate decide."""
    settings = {
        "epoch": b"e",
        "lease_millis": 1_000,
        "ping_interval_millis": 50,
        "local_decisions": True,
        **fields,
    }
    return sync_pb2.SyncResponse(opened=sync_pb2.SyncOpened(**settings))


def part(partition: str = "default", **fields: Any) -> sync_pb2.SyncResponse:
    """Return a policy in one part, in which alice may submit to the root. If it is unchanged or
    removed, it has no queues.
    """
    if fields.get("unchanged") or fields.get("removed"):
        short = sync_pb2.PolicyPart(partition=partition, checksum=b"1", **fields)
        return sync_pb2.SyncResponse(policy=short)
    queues = {"root": ("alice staff", "")}
    return sync_pb2.SyncResponse(policy=yunikorn_part(queues, partition, **fields))


class ScriptedSync(SyncServiceServicer):
    """Runs the next script for each stream, or `behave` when there are none left."""

    def __init__(self, *scripts: Script, **greeting: Any) -> None:
        """Create a servicer without streams.

        Args:
            scripts: The behaviour of the first streams.
            greeting: Greeting fields of all other streams. Their lease is the longest unless this
                says otherwise, so that none ends on a busy machine.
        """
        self.opens: list[sync_pb2.SyncOpen] = []
        """The first messages of streams that behaved."""
        self.streams = 0
        self.address = ""
        self.changed = threading.Event()
        """Set by a test to make streams send the policy again."""
        self._scripts = [*scripts]
        self._greeting = {"lease_millis": int(MAX_LEASE_SECONDS * 1_000), **greeting}

    def Sync(self, request_iterator: Any, context: Any) -> Responses:  # noqa: N802 - the contract's
        self.streams += 1
        script = self._scripts.pop(0) if self._scripts else self.behave
        return script(request_iterator, context)

    def behave(self, requests: Requests, context: grpc.ServicerContext) -> Responses:
        for request in requests:
            kind = request.WhichOneof("message")
            if kind == "open":
                self.opens.append(request.open)
                yield opened(**self._greeting)
                yield part()
                yield sync_pb2.SyncResponse(checkpoint=sync_pb2.SyncCheckpoint(sequence=1))
            elif kind == "ping":
                if self.changed.is_set():
                    self.changed.clear()
                    yield part()
                yield sync_pb2.SyncResponse(pong=sync_pb2.SyncPong(id=request.ping.id))
            elif kind == "release":
                return


@contextmanager
def scripted_sync(*scripts: Script, **greeting: Any) -> Iterator[ScriptedSync]:
    """Serve on a free port, without other services."""
    servicer = ScriptedSync(*scripts, **greeting)
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        add_SyncServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        servicer.address = f"127.0.0.1:{port}"
        server.start()
        try:
            yield servicer
        finally:
            server.stop(0).wait(30)
